package qemu
import ("testing";"syscall";"time";"fmt";"os"
"github.com/cespare/xxhash/v2"
)
func cpu(who int) time.Duration { var r syscall.Rusage; syscall.Getrusage(who,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano())}
func TestZZCPU(t *testing.T){ cfg:=testFork(t); c,_:=cfg.withDefaults(); m,_:=readManifest(c)
 n:=20
 a:=cpu(0); for range n { mem,_:=newRAM(c.Memory); loadRAM(t.Context(),c.templateFile(ramName),m.Extents,mem); mem.close() }; fmt.Println("copy cpu", (cpu(0)-a)/time.Duration(n))
 f,_:=os.Open(c.templateFile(ramName)); buf:=make([]byte,maxExtent)
 a=cpu(0); var tot int64; for range n { for _,e:=range m.Extents { f.ReadAt(buf[:e.Length],e.Offset); tot+=e.Length } }; fmt.Println("read cpu", (cpu(0)-a)/time.Duration(n), tot/int64(n), len(m.Extents))
 a=cpu(0); for range n { for _,e:=range m.Extents { xxhash.Sum64(buf[:e.Length]) } }; fmt.Println("hash cpu", (cpu(0)-a)/time.Duration(n))
 a=cpu(0); for range n { mem,_:=newRAM(c.Memory); for _,e:=range m.Extents { mem.file.WriteAt(buf[:e.Length],e.Offset) }; mem.close() }; fmt.Println("write cpu", (cpu(0)-a)/time.Duration(n))
 a=cpu(0); b:=cpu(syscall.RUSAGE_CHILDREN); for range n { vm,_:=Start(t.Context(),cfg); vm.Close()}; fmt.Println("start: self", (cpu(0)-a)/time.Duration(n), "qemu", (cpu(syscall.RUSAGE_CHILDREN)-b)/time.Duration(n))
}
