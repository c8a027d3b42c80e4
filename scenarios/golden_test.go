package scenarios

import (
	"fmt"
	"os"
	"strings"
	"testing"
)
const small = "name: x\nabout: y\nfilesystem: {type: ext4}\nworkload: {kind: overwrite}\ncut: {op: 1}\n"
func TestProbe(t *testing.T) {
	_ = os.Stdout
	for _, s := range []string{"", "# only a comment\n", "---\n", "~\n","- a\n", "abc\n", small+"---\n"+small, small+"name: z\n", small+"kernl: z\n", small+"guest: {memry: 1}\n",
	small+"expect:\n  lost: >= 1\n", small+"expect:\n  lost: -1\n", small+"expect:\n  p50: {fsnc: \"< 5ms\"}\n", small+"expect:\n  p50: {none: \"< 5ms\"}\n",small+"expect:\n  p50: 5\n",
	small+"expect:\n  ratios: [fsync / fsync > 2]\n", small+"expect:\n  ratios: [fsnc / fsync > 2]\n",small+"expect:\n  ratios: [none / fsync > 2]\n",
	small+"drive: {timing: ide-5400}\n", small+"drive: {timing: {rpm: 5400}}\n",small+"drive:\n  timing:\n    profile: none\n    rpm: 5400\n",small+"drive:\n  timing:\n    profile: ide-7200\n    rpm: 0\n",
	small+"timeout: 5\n", small+"timeout: 5h\n", small+"kernel: 6.1\n", small+"kernel: \n", small+"guest: 5\n", small+"guest: [1]\n", small+"drive: {write-cache: maybe}\n", small+"drive: {faults: [flush-ignord]}\n",small+"drive: {faults: flush-ignored}\n",small+"drive: {faults: [flush-ignored, flush-ignored]}\n",
	small+"a: &x 1\n",small+"a: *x\n",small+"a: !!str 1\n",small+"<<: {a: 1}\n","%YAML 1.2\n---\n"+small,
	strings.Replace(small,"op: 1","op: 201",1),strings.Replace(small,"op: 1","op: 1, ack: 1",1),strings.Replace(small,"{op: 1}","{}",1),strings.Replace(small,"op: 1","random: 9-3",1),strings.Replace(small,"op: 1","after: 2m",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, bytes: 1000, size: 2k, stride: 500}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: append, bytes: 1MiB, stride: 1MiB}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: append, stride: 0}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, size: 12q}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, file: ../x}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, file: /x}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, count: lots}",1),
	strings.Replace(small,"{kind: overwrite}","{kind: overwrite, count: 0}",1),
	strings.Replace(small,"{kind: overwrite}","{}",1),
	strings.Replace(small,"workload: {kind: overwrite}\n","",1),
	strings.Replace(small,"type: ext4","type: ext4, mkfs: [/dev/sda]",1),
	strings.Replace(small,"type: ext4","type: ext4, mkfs: [-b, 4096]",1),
	strings.Replace(small,"type: ext4","type: ext4, mkfs: [-b, '4096', x]",1),
	strings.Replace(small,"type: ext4","type: ext4, mount: a b",1),
	strings.Replace(small,"type: ext4","type: [ext4",1),
	strings.Replace(small,"type: ext4","type: ext5",1),
	"\t"+small, small+"[a]: 1\n", small + "? {a: 1}\n: b\n", "name: \"a\n", "name: a\x00b\n", "name: |\n  a\n  b\n"+small[8:], strings.Repeat("[", 30000), strings.Repeat("{a: ", 10000),strings.Repeat("- ", 30000), "a:\n"+strings.Repeat(" ", 70000),
	} {
		if len(s) > 1000 { fmt.Printf("--- %q...\n", s[:20]) } else if i := strings.Index(s, small); i >= 0 { fmt.Printf("--- %q small %q\n", s[:i], s[i+len(small):]) } else {fmt.Printf("--- %q\n", s)}
		_, err := Parse("f.yaml", []byte(s))
		if err != nil { e := err.Error(); if len(e) > 1000 { e = e[:1000]}; fmt.Println(e) } else { fmt.Println("OK?")}
	}
}
