package scenarios
import ("testing";"strings";"time";"fmt")
func TestSlow(t *testing.T) {
 for _, s := range []string{ strings.Repeat("[", 30000), strings.Repeat("[", 15000),strings.Repeat("{a: ", 10000),strings.Repeat("- ", 30000), strings.Repeat("? ",30000), strings.Repeat("a: [{",10000), strings.Repeat("!!x ",16000), strings.Repeat("&a ",16000), strings.Repeat("a:\n ",16000), func() string { var b strings.Builder; for i:=0;i<350;i++ { b.WriteString(strings.Repeat(" ",i)+"a:\n")}; return b.String()}(), strings.Repeat("a: 1\n",12000), strings.Repeat("---\n",16000), strings.Repeat("'",60000)} {
  t0:=time.Now()
  _, err := Parse("f.yaml", []byte(s))
  fmt.Printf("%.10q %v %.100s\n", s, time.Since(t0), err.Error())
 }
}
