package verdict

import "testing"

// TestRounding has a checker move the file's end to that of its last block.
func TestRounding(t *testing.T) {
	for name, c := range map[string]struct {
		size, rounding int64
		stain          int64 // where a byte is not zero; 0: nowhere
		right          bool
	}{
		"as written":                        {600, 1024, 0, true},
		"up to the block's end":             {1024, 1024, 0, true},
		"without a checker":                 {1024, 0, 0, false},
		"into the next block":               {2048, 1024, 0, false},
		"elsewhere in the block":            {1000, 1024, 0, false},
		"one byte more":                     {1025, 1024, 0, false},
		"with what nobody wrote behind it":  {1024, 1024, 1023, false},
		"with a stain right behind the end": {1024, 1024, 600, false},
	} {
		t.Run(name, func(t *testing.T) {
			st := tell(byteAppend(900), 600, 600).resize(c.size)
			st.survivors.Rounding = c.rounding
			if c.stain > 0 {
				st.data()[c.stain] = 7
			}
			r := Judge(st.history, st.survivors)
			if (r.Size == "") != c.right || r.Counts.Kept != 600 {
				t.Errorf("size is right: %v, want %v (%s); %+v", r.Size == "", c.right, r.Size, r.Counts)
			}
		})
	}
	// The checker lengthens no file that was acknowledged to be longer.
	st := tell(byteAppend(900), 600, 600).resize(512)
	st.survivors.Rounding = 512
	if r := Judge(st.history, st.survivors); r.Size == "" || r.Counts.Lost != 88 {
		t.Errorf("too short: %q, %+v", r.Size, r.Counts)
	}
	// Nor does it change a file that was made at its full size.
	st = tell(overwrite(10), 10, 10).resize(10_240)
	st.survivors.Rounding = 1024
	if r := Judge(st.history, st.survivors); r.Size == "" {
		t.Error("an overwritten file may not grow")
	}
}
