package qemu
import ("testing";"fmt";"os")
func TestZZ(t *testing.T){ vm:=start(t,testFork(t)); fmt.Fprintln(vm.Control(),"crash"); <-vm.Done(); b,_:=os.ReadFile(vm.ConsolePath()); os.WriteFile("/tmp/qk/panic.log",b,0644)
 cfg:=testConfig(t); vm=start(t,cfg); awaitReady(t.Context(),vm); b,_=os.ReadFile(vm.ConsolePath()); os.WriteFile("/tmp/qk/boot.log",b,0644)
 cfg=testConfig(t); cfg.Cmdline=[]string{"ignore_loglevel"}; vm=start(t,cfg); awaitReady(t.Context(),vm); b,_=os.ReadFile(vm.ConsolePath()); os.WriteFile("/tmp/qk/boot-verbose.log",b,0644)}
