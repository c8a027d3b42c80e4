package scenarios

import (
	"fmt"
	"testing"
)

func TestEmbedded(t *testing.T) {
	for _, info := range List() {
		s, err := Load(info.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		out, err := s.Marshal()
		fmt.Println(string(out), err)
		_, err = Parse("x", out)
		if err != nil {
			t.Error(err)
		}
	}
}
