// Makes the timelines zoom, and shows the requests of an op. Without it the page
// shows the same, less the zoom.
'use strict';
document.documentElement.classList.add('js');

const NS = 'http://www.w3.org/2000/svg';

// tickName names a time in microseconds from the cut.
function tickName(us) {
  if (Math.abs(us) < 1e-9) return 'cut';
  const sign = us < 0 ? '\u2212' : '+', v = Math.abs(us);
  const show = (x, unit) => sign + String(Number(x.toPrecision(6))) + ' ' + unit;
  if (v < 1) return show(v * 1e3, 'ns');
  if (v < 1e3) return show(v, '\u00b5s');
  if (v < 1e6) return show(v / 1e3, 'ms');
  return show(v / 1e6, 's');
}

function niceStep(least) {
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  for (const m of [1, 2, 5, 10]) if (m * power >= least) return m * power;
  return 10 * power;
}

function timeline(figure) {
  const data = JSON.parse(figure.querySelector('script').textContent);
  const stage = figure.querySelector('.stage');
  const inner = stage.querySelector('.window');
  const ticks = stage.querySelector('.ticks');
  const chosen = figure.querySelector('.chosen');
  const first = inner.getAttribute('viewBox').split(' ').map(Number);
  const high = first[3];
  const begin = Math.min(first[0], ...data.ops.map(o => o.a), ...data.rqs.map(r => r.a));
  const end = first[0] + first[2];
  let from = first[0], width = first[2], picked = -1;

  function axis() {
    ticks.replaceChildren();
    const most = Math.max(2, Math.floor(stage.clientWidth / 110));
    const step = niceStep(width / most);
    for (let v = Math.ceil(from / step) * step; v <= from + width; v += step) {
      const at = (v - from) / width * 100;
      if (at < 5 || at > 95) continue;
      const line = document.createElementNS(NS, 'line');
      line.setAttribute('class', 'axis');
      line.setAttribute('x1', at + '%');
      line.setAttribute('x2', at + '%');
      line.setAttribute('y1', high);
      line.setAttribute('y2', high + 4);
      const text = document.createElementNS(NS, 'text');
      text.setAttribute('text-anchor', 'middle');
      text.setAttribute('x', at + '%');
      text.setAttribute('y', high + 17);
      text.textContent = tickName(Math.abs(v) < step / 1e6 ? 0 : v);
      ticks.append(line, text);
    }
    data.ops.forEach(o => {
      const seen = Math.min(o.b, from + width) - Math.max(o.a, from);
      if (seen / width * stage.clientWidth < 10 + 8 * String(o.n).length) return;
      const text = document.createElementNS(NS, 'text');
      text.setAttribute('class', 'onop');
      text.setAttribute('text-anchor', 'middle');
      text.setAttribute('x', ((Math.max(o.a, from) + Math.min(o.b, from + width)) / 2 - from) / width * 100 + '%');
      text.setAttribute('y', 31);
      text.textContent = o.n;
      ticks.append(text);
    });
  }

  function show(a, w) {
    const all = (end - begin) * 1.02;
    width = Math.min(Math.max(w, 1), all);
    from = Math.min(Math.max(a, end - all), end - width * 0.02);
    inner.setAttribute('viewBox', [from, 0, width, high].join(' '));
    axis();
  }

  function zoom(factor, at) { show(from + width * at * (1 - factor), width * factor); }

  function choose(i) {
    stage.querySelectorAll('.on').forEach(e => e.classList.remove('on'));
    picked = i;
    stage.classList.toggle('picked', i >= 0);
    chosen.replaceChildren();
    if (i < 0) return;
    const op = data.ops[i];
    stage.querySelector('[data-op="' + i + '"]').classList.add('on');
    op.r.forEach(r => stage.querySelector('[data-rq="' + r + '"]').classList.add('on'));
    const head = document.createElement('p');
    head.className = 'soft';
    head.textContent = 'op ' + op.n + ': ' + op.t;
    const list = document.createElement('ul');
    op.r.forEach(r => {
      const item = document.createElement('li');
      item.textContent = data.rqs[r].t;
      list.append(item);
    });
    if (!op.r.length) head.textContent += '; no request reached the drive while it ran';
    chosen.append(head, list);
    if (op.b < from || op.a > from + width) show((op.a + op.b) / 2 - width / 2, width);
  }

  function step(by) {
    if (!data.ops.length) return;
    choose(picked < 0 ? data.ops.length - 1 : Math.min(Math.max(picked + by, 0), data.ops.length - 1));
  }

  const acts = {
    in: () => zoom(0.5, 0.5), out: () => zoom(2, 0.5),
    left: () => show(from - width / 4, width), right: () => show(from + width / 4, width),
    cut: () => show(first[0], first[2]), all: () => show(begin, end - begin),
  };
  figure.querySelectorAll('button').forEach(b => b.addEventListener('click', acts[b.dataset.do]));
  const keys = {
    '+': acts.in, '=': acts.in, '-': acts.out, ArrowLeft: acts.left, ArrowRight: acts.right,
    Home: acts.all, End: acts.cut, n: () => step(1), p: () => step(-1), Escape: () => choose(-1),
  };
  stage.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  stage.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.shiftKey) return;
    e.preventDefault();
    const at = (e.clientX - stage.getBoundingClientRect().left) / stage.clientWidth;
    zoom((e.deltaY || e.deltaX) > 0 ? 1.25 : 0.8, at);
  }, { passive: false });

  const fingers = new Map();
  let moved = 0;
  stage.addEventListener('pointerdown', e => { fingers.set(e.pointerId, e.clientX); moved = 0; });
  window.addEventListener('pointerup', e => fingers.delete(e.pointerId));
  window.addEventListener('pointercancel', e => fingers.delete(e.pointerId));
  stage.addEventListener('pointermove', e => {
    if (!fingers.has(e.pointerId)) return;
    const before = [...fingers.values()];
    const by = e.clientX - fingers.get(e.pointerId);
    moved += Math.abs(by);
    fingers.set(e.pointerId, e.clientX);
    if (fingers.size === 1) {
      show(from - by / stage.clientWidth * width, width);
    } else if (fingers.size === 2) {
      const gap = v => Math.max(Math.abs(v[0] - v[1]), 8);
      const now = [...fingers.values()];
      const left = stage.getBoundingClientRect().left;
      zoom(gap(before) / gap(now), ((now[0] + now[1]) / 2 - left) / stage.clientWidth);
    }
  });
  stage.addEventListener('click', e => {
    if (moved > 6) return;
    const el = e.target.closest('[data-op],[data-rq]');
    if (!el) return choose(-1);
    choose(el.dataset.op !== undefined ? Number(el.dataset.op) : data.rqs[Number(el.dataset.rq)].o);
  });
  new ResizeObserver(axis).observe(stage);
}

document.querySelectorAll('.timeline').forEach(timeline);
window.addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(d => { if (d.closest('#around')) d.open = true; }));
