package report

import "testing"

func TestAgain(t *testing.T) {
	for want, d := range map[string]Document{
		"powercut run runs/a/scenario.yaml --seed 7":                                             {Folder: "runs/a", Seed: 7, Machine: Machine{Kernel: "debian:6.1", Modules: []Module{{Name: "ext4", Variant: "ours", Path: "x"}}}},
		"powercut run 'my runs/a/scenario.yaml' --seed 0 --kernel ./bzImage --module /k/ext4.ko": {Folder: "my runs/a", Machine: Machine{Kernel: "./bzImage", Modules: []Module{{Name: "ext4", Path: "/k/ext4.ko"}}}},
		"powercut run runs/a/scenario.yaml --seed 7 --kernel ./bzImage --modules /k/lib --kernel-param 'a=b c' --kernel-param ro": {
			Folder: "runs/a", Seed: 7, Machine: Machine{Kernel: "./bzImage", ModulesFrom: "/k/lib", Params: []string{"a=b c", "ro"}},
		},
		`powercut run 'it'\''s $(x)/scenario.yaml' --seed 1 --serial-ledger`: {Folder: "it's $(x)", Seed: 1, Machine: Machine{Ledger: LedgerSerial}},
	} {
		if got := d.Again(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
