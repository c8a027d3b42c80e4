package qemu
import ("testing";"context";"os";"os/exec";"path/filepath";"strings";"time";"bufio";"fmt"
"github.com/cavaliergopher/cpio")
func buildInitrd(t testing.TB, dir string) string {
  bin:=filepath.Join(dir,"init")
  c:=exec.Command("go","build","-ldflags=-s -w","-o",bin,"./testdata/init"); c.Env=append(os.Environ(),"CGO_ENABLED=0")
  if out,err:=c.CombinedOutput(); err!=nil {t.Fatal(string(out),err)}
  f,_:=os.Create(filepath.Join(dir,"initrd")); w:=cpio.NewWriter(f)
  add:=func(n string, b []byte, mode int){ if err:=w.WriteHeader(&cpio.Header{Name:n,Mode:cpio.FileMode(mode)|cpio.TypeReg,Size:int64(len(b))});err!=nil{t.Fatal(err)}; w.Write(b)}
  for _,d:=range []string{"dev","proc","sys","modules"} { w.WriteHeader(&cpio.Header{Name:d,Mode:cpio.TypeDir|0755}) }
  b,_:=os.ReadFile(bin); add("init",b,0755)
  var order []string
  ord,_:=os.ReadFile("/tmp/qk/order")
  for _,m:=range strings.Fields(string(ord)) { b,err:=os.ReadFile(m); if err!=nil{t.Fatal(err)}; n:=filepath.Base(m); add("modules/"+n,b,0644); order=append(order,n) }
  add("modules/order",[]byte(strings.Join(order,"\n")),0644)
  w.Close(); f.Close(); return f.Name()
}
func talk(t testing.TB, vm *VM, r *bufio.Reader, s string) string { t.Helper()
 vm.Control().SetDeadline(time.Now().Add(30*time.Second))
 if s!="" { fmt.Fprintln(vm.Control(),s) }
 l,err:=r.ReadString('\n'); if err!=nil {t.Fatal(vm.Failure("talk",err))}
 return strings.TrimSpace(l)}
func TestTrial(t *testing.T){
 dir:=t.TempDir(); initrd:=buildInitrd(t,dir)
 cfg:=Config{Dir:dir,Kernel:"/tmp/qk/vmlinux",Initramfs:initrd,Reserve:Reserve{0x0B000000,1<<20}}
 t0:=time.Now()
 vm,err:=Start(context.Background(),cfg); if err!=nil{t.Fatal(err)}
 defer vm.Close()
 t.Log("start",time.Since(t0), vm.Command())
 r:=bufio.NewReader(vm.Control())
 t.Log(talk(t,vm,r,""), time.Since(t0))
 t.Log(talk(t,vm,r,"echo hi"))
 t.Log(talk(t,vm,r,"poke hello world"))
 t.Logf("%q",vm.Memory()[0x0B000000:][:16])
 tpl:=filepath.Join(dir,"tpl"); os.Mkdir(tpl,0700)
 t0=time.Now()
 if err:=Save(context.Background(),vm,tpl);err!=nil{t.Fatal(err)}
 t.Log("save",time.Since(t0)); vm.Close()
 out,_:=exec.Command("sh","-c","ls -la "+tpl+"; du -k "+tpl+"/*; head -c 1500 "+tpl+"/manifest.json").CombinedOutput(); t.Log(string(out))
 cfg.Template=tpl
 for i:=range 6 {
  cfg.ConsolePath=fmt.Sprintf("c%d",i)
  t0=time.Now()
  vm,err:=Start(context.Background(),cfg); if err!=nil{t.Fatal(err)}
  d:=time.Since(t0)
  r:=bufio.NewReader(vm.Control())
  a:=talk(t,vm,r,"echo fork")
  t.Log("fork",d,"answer",time.Since(t0),a)
  t.Log(talk(t,vm,r,fmt.Sprintf("poke fork %d",i)))
  t0=time.Now(); if err:=vm.Kill();err!=nil{t.Fatal(err)}
  t.Log("kill",time.Since(t0)); t.Logf("%q",vm.Memory()[0x0B000000:][:16])
  vm.Close()
 }
}
