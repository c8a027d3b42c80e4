package html

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// probe is run in the page once it has loaded: it uses the timeline as a reader
// would, and leaves what came of it in an element.
const probe = `<script>
addEventListener('load', () => setTimeout(() => {
  const out = {};
  const t = performance.getEntriesByType('navigation')[0];
  out.loaded = t.loadEventEnd;
  const f = document.querySelectorAll('.timeline')[1], stage = f.querySelector('.stage'), win = f.querySelector('.window');
  const box = () => win.getAttribute('viewBox').split(' ').map(Number);
  const key = k => stage.dispatchEvent(new KeyboardEvent('keydown', { key: k }));
  out.before = box()[2];
  f.querySelector('[data-do=in]').click();
  out.zoomed = box()[2];
  key('-'); key('-');
  out.out = box()[2];
  f.querySelector('[data-do=cut]').click();
  out.back = box()[2];
  stage.querySelectorAll('[data-op]')[stage.querySelectorAll('[data-op]').length - 2].dispatchEvent(new MouseEvent('click', { bubbles: true }));
  out.chosen = f.querySelector('.chosen').textContent;
  out.on = stage.querySelectorAll('.rq.on').length;
  key('p');
  out.previous = f.querySelector('.chosen').textContent;
  key('Escape');
  out.none = f.querySelector('.chosen').textContent;
  out.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  out.elements = document.querySelectorAll('*').length;
  const pre = document.createElement('p');
  pre.id = 'probe';
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
}, 200));
addEventListener('error', e => { document.title = 'ERROR ' + e.message; });
</script>`

// maxElements is what a browser lays out well within a second.
const maxElements = 8000

type probed struct {
	Loaded                    float64 // milliseconds
	Before, Zoomed, Out, Back float64
	Chosen, Previous, None    string
	On, Wide, Elements        int
}

// TestBrowser opens the page of a run of 20,000 ops in Chromium, where there is one,
// and uses it: it must be light, zoom, and lead from an op to its requests.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not opened in a browser")
	}
	page := filepath.Join(t.TempDir(), "page.html")
	text := strings.Replace(written(t, aRun(20_000)), "</body>", probe+"</body>", 1)
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"1280,900", "500,800"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
			"--window-size="+size, "--virtual-time-budget=4000", "--dump-dom", "file://"+page).Output()
		cancel()
		if err != nil {
			t.Skipf("chromium does not run here: %v", err)
		}
		m := regexp.MustCompile(`<p id="probe">(.*?)</p>`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("the page's script did not come to its end; its title is %s", regexp.MustCompile(`<title>.*?</title>`).Find(out))
		}
		var got probed
		if err := json.Unmarshal(m[1], &got); err != nil {
			t.Fatal(err)
		}
		if got.Zoomed >= got.Before || got.Out <= got.Before || got.Back != got.Before {
			t.Errorf("%s: zoom: %+v", size, got)
		}
		if !strings.Contains(got.Chosen, "op 19999:") || !strings.Contains(got.Chosen, "lost") || got.On != 4 || strings.Count(got.Chosen, "request ") != 4 {
			t.Errorf("%s: op 19999 leads to %d requests: %s", size, got.On, got.Chosen)
		}
		if !strings.Contains(got.Previous, "op 19998:") || got.None != "" {
			t.Errorf("%s: previous %q, none %q", size, got.Previous, got.None)
		}
		if got.Wide > 0 {
			t.Errorf("%s: the page is %d pixels wider than the window", size, got.Wide)
		}
		// How long that takes depends on what else the machine does; how much there is to
		// be laid out does not.
		if got.Elements > maxElements {
			t.Errorf("%s: %d elements", size, got.Elements)
		}
		t.Logf("%s: loaded after %.0f ms, %d elements, %d bytes", size, got.Loaded, got.Elements, len(text))
	}
}
