// Explorers: a form, a figure, a table and a sentence for what the reader chose. An explorer is a function of the form's
// values, registered in `hdpm.explorers` by a script of its own, or else the page holds what the library says of every
// setting; what this file does is the same for all. The values live in the address, ?explore-NAME=..., so that a setting
// can be cited. Without scripts the page shows sentence and table of one setting, as the library computed them.
// A page with two explorers names this file twice.
var hdpm = window.hdpm ?? { explorers: {} };

// Numbers as the library prints them: three digits, or what the column asks for.
hdpm.digits = (x, count = 3) => {
  if (x === 0 || !Number.isFinite(x)) return String(x);
  const shown = Number(x.toPrecision(count)), size = Math.abs(shown);
  if (size >= 1e6 || size < 1e-4) return shown.toExponential();
  return size >= 10 ** count ? String(shown) : shown.toPrecision(count);
};

hdpm.tick = (t) => (Math.abs(t) >= 1e4 ? t.toExponential().replace("+", "") : String(Number(t.toPrecision(3))));

// Where a function that falls (or rises) through zero on [low, high] does so.
hdpm.root = (f, low, high) => {
  const falls = f(low) > f(high);
  for (let i = 0; i < 200 && high - low > 1e-15 * high; i++) {
    const middle = (low + high) / 2;
    if (f(middle) > 0 === falls) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
};

hdpm.make = (tag, attributes = {}, ...children) => {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "g"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// A figure of curves, in the style of the book's: { x, y, log, alt, curves: [{ name, points }] }, where null among the
// points lifts the pen; `at` is where the setting is on the x axis, `mark` another place there and its name, and `range`
// and `across` the ends of the axes, if they are not those of the curves. A curve may be `bars`, [from, to, height] each,
// or `dots`, [x, y, number] each, of which those up to number `at` are shown; `names` are places on the x axis in words.
hdpm.figure = ({ x, y, log = "", alt, curves, at, mark, range, across, names }) => {
  const W = 520, H = 300, left = 66, right = 24, top = 12, bottom = 50;
  const scale = (name, values, from, to) => {
    const f = log.includes(name) ? Math.log10 : (v) => v;
    const finite = values.map(f).filter(Number.isFinite);
    let low = Math.min(...finite), high = Math.max(...finite);
    const edge = low === high ? 0.5 : name === "y" && !range ? 0.04 * (high - low) : 0;
    [low, high] = [low - edge, high + edge];
    const place = (v) => from + ((f(v) - low) / (high - low)) * (to - from);
    const slack = 1e-9 * (high - low), inside = (t) => f(t) >= low - slack && f(t) <= high + slack;
    const even = (least, most) => {
      const rough = (most - least) / 4, unit = 10 ** Math.floor(Math.log10(rough)), found = [];
      const step = unit * [1, 2, 2.5, 5, 10].find((m) => m * unit >= rough);
      for (let t = Math.ceil(least / step - 1e-9) * step; t <= most + 1e-9 * step; t += step) found.push(Number(t.toPrecision(12)));
      return found;
    };
    let ticks = [];
    if (log.includes(name)) {
      const step = Math.max(1, Math.round((high - low) / 4)), parts = high - low < 2 ? [1, 2, 5] : [1];
      for (let t = Math.floor(low / step) * step; t <= high; t += step) ticks.push(...parts.map((m) => m * 10 ** t));
      if (ticks.filter(inside).length < 2) ticks = even(10 ** low, 10 ** high); // a small part of a decade
    } else ticks = even(low, high);
    return { place, ticks: ticks.filter(inside) };
  };
  const corners = (bars) => bars.flatMap(([from, to, b]) => [[from, 0], [to, b]]);
  const all = curves.flatMap(({ points = [], bars = [], dots = [] }) => [...points.filter(Boolean), ...corners(bars), ...dots]);
  const X = scale("x", across ?? all.map(([a]) => a), left, W - right), Y = scale("y", range ?? all.map(([, b]) => b), H - bottom, top);
  const svg = hdpm.make("svg", { viewBox: `0 0 ${W} ${H}`, class: "hdpm-figure", role: "img", "aria-label": alt });
  for (const t of names ? Object.keys(names).map(Number) : X.ticks) {
    if (!names) svg.append(hdpm.make("line", { x1: X.place(t), x2: X.place(t), y1: top, y2: H - bottom, class: "hdpm-grid" }));
    svg.append(hdpm.make("text", { x: X.place(t), y: H - bottom + 20, "text-anchor": "middle" }, names?.[t] ?? hdpm.tick(t)));
  }
  for (const t of Y.ticks) {
    svg.append(hdpm.make("line", { x1: left, x2: W - right, y1: Y.place(t), y2: Y.place(t), class: "hdpm-grid" }));
    svg.append(hdpm.make("text", { x: left - 6, y: Y.place(t) + 4, "text-anchor": "end" }, hdpm.tick(t)));
  }
  svg.append(hdpm.make("text", { x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, x));
  svg.append(hdpm.make("text", { x: 14, y: (top + H - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(top + H - bottom) / 2})` }, y));
  const upright = (where, kind) => hdpm.make("line", { x1: X.place(where), x2: X.place(where), y1: top, y2: H - bottom, class: kind });
  if (mark) svg.append(upright(mark[0], "hdpm-truth"), hdpm.make("text", { x: X.place(mark[0]) + 5, y: top + 12 }, mark[1]));
  const watched = curves.some(({ dots }) => dots); // then `at` counts dots
  if (Number.isFinite(at) && !watched) svg.append(upright(at, "hdpm-at"));
  const box = { x: left, y: top, width: W - left - right, height: H - top - bottom };
  const plot = hdpm.make("svg", { ...box, viewBox: Object.values(box).join(" ") }); // cuts off what leaves the range; dashes far outside take long to draw
  curves.forEach(({ points = [], bars = [], dots = [] }, i) => {
    for (const [from, to, b] of bars) {
      const shape = { x: X.place(from) + 1, y: Y.place(b), width: X.place(to) - X.place(from) - 2, height: Y.place(0) - Y.place(b) };
      plot.append(hdpm.make("rect", { ...shape, class: `hdpm-bar-${i}` }));
    }
    for (const [a, b, k] of dots) if (k <= at) plot.append(hdpm.make("circle", { cx: X.place(a), cy: Y.place(b), r: 4.5, class: `hdpm-dot-${i}` }));
    const inside = points.filter((point) => !point || point.every((v, k) => Number.isFinite(v) && (!log.includes("xy"[k]) || v > 0)));
    const d = inside.map((point, k) => point && `${inside[k - 1] ? "L" : "M"}${X.place(point[0]).toFixed(1)} ${Math.max(Y.place(point[1]), -H).toFixed(1)}`);
    if (d.length) plot.append(hdpm.make("path", { d: d.join(""), class: `hdpm-curve hdpm-curve-${i}` }));
    const here = inside.find((point) => point && Math.abs(point[0] - at) < 1e-9 * at);
    if (here) plot.append(hdpm.make("circle", { cx: X.place(at), cy: Y.place(here[1]), r: 5, class: `hdpm-dot-${i}` }));
  });
  svg.append(plot);
  const drawn = ({ bars, dots }, i) => (bars ? hdpm.make("rect", { x: 8, y: 0, width: 14, height: 6, class: `hdpm-bar-${i}` })
    : dots ? hdpm.make("circle", { cx: 15, cy: 3, r: 3, class: `hdpm-dot-${i}` }) : hdpm.make("path", { d: "M0 3H30", class: `hdpm-curve hdpm-curve-${i}` }));
  const sample = (i) => hdpm.make("svg", { viewBox: "0 0 30 6", "aria-hidden": "true" }, drawn(curves[i], i));
  const key = hdpm.make("p", { class: "hdpm-key" }, ...curves.map(({ name }, i) => hdpm.make("span", {}, sample(i), name)));
  return [key, svg];
};

// Sets controls of a form to what a query says.
hdpm.set = (form, query) => {
  for (const [field, value] of new URLSearchParams(query ?? "")) {
    const control = form.elements[field], before = control?.value;
    if (!control) continue;
    control.value = value;
    if (control.value !== value) control.value = before; // an address may say anything
  }
};

// Sets a form to what the address says under a key; the function that it returns writes the address anew: what differs
// from the start and is in use. The address escapes all of it once more, so that here only its own marks are escaped.
hdpm.cited = (form, key) => {
  const first = new FormData(form);
  const written = () => [...new FormData(form)].filter(([name, value]) => value !== first.get(name) && !form.elements[name].closest?.("[hidden]"))
    .map(([name, value]) => `${name}=${value.replace(/[%&+]/g, encodeURIComponent)}`).join("&");
  hdpm.set(form, new URLSearchParams(location.search).get(key));
  return () => {
    const query = new URLSearchParams(location.search), said = written();
    if (said) query.set(key, said);
    else query.delete(key);
    try {
      history.replaceState(null, "", location.pathname + (query.size ? `?${query}` : "") + location.hash);
    } catch {
      // some browsers do not let a page on disk change its address; the explorer works all the same
    }
  };
};

// What the library says of a setting, where the page holds it for all of them.
hdpm.held = (state, { parts, states }) => {
  const found = states[Object.values(state).join("|")], [sentence, caption, rows, figure] = found.slice(0, 4).map((i) => parts[i]);
  return { sentence, caption, rows, figure: () => ({ ...figure, at: found[4] }) };
};

// Start every explorer of the page.
addEventListener("DOMContentLoaded", () => {
  if (hdpm.started) return;
  hdpm.started = true;
  for (const root of document.querySelectorAll("[data-explorer]")) {
    const name = root.dataset.explorer, show = hdpm.explorers[name] ?? hdpm.held;
    const form = root.querySelector("form"), table = root.querySelector("table");
    const held = root.querySelector('script[type="application/json"]'), data = held && JSON.parse(held.textContent);

    const draw = () => {
      const state = Object.fromEntries(new FormData(form));
      for (const slider of form.querySelectorAll("input[type=range]")) {
        const { name, value, dataset } = slider; // a slider with data-log moves along powers of ten
        if ("log" in dataset) state[name] = hdpm.digits(10 ** Number(value));
        slider.setAttribute("aria-valuetext", state[name]);
        slider.parentElement.querySelector("output").textContent = state[name];
      }
      for (const part of form.querySelectorAll("[data-when]")) {
        const [other, value] = part.dataset.when.split("=");
        part.hidden = state[other] !== value;
      }
      const found = show(state, data);
      root.querySelector(".hdpm-winner").textContent = found.sentence;
      root.classList.toggle("hdpm-refused", Boolean(found.refused));
      if (found.refused) return;
      if (table) {
        table.caption.textContent = found.caption;
        table.tBodies[0].replaceChildren(...found.rows.map(([head, ...cells]) => {
          const th = hdpm.make("th", { scope: "row" }, head);
          return hdpm.make("tr", {}, th, ...cells.map((cell) => hdpm.make("td", {}, typeof cell === "number" ? hdpm.digits(cell) : cell)));
        }));
      }
      root.querySelector(".hdpm-drawn").replaceChildren(...hdpm.figure(found.figure()));
    };

    // A slider that plays moves to its end by itself; where motion is unwanted it jumps there.
    for (const slider of form.querySelectorAll("[data-play]")) {
      const button = hdpm.make("button", { type: "button", class: "hdpm-play" }, "Play"), said = root.querySelector(".hdpm-winner");
      const step = Number(slider.step), last = Number(slider.max);
      let timer;
      const stop = () => {
        clearInterval(timer);
        timer = undefined;
        button.textContent = "Play";
        said.ariaLive = "polite";
        remember();
      };
      const move = (to) => {
        slider.value = to;
        draw();
      };
      button.addEventListener("click", () => {
        if (timer) return stop();
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) return move(last), remember();
        said.ariaLive = "off"; // not each step is read aloud
        if (Number(slider.value) >= last) move(Number(slider.min));
        button.textContent = "Stop";
        timer = setInterval(() => {
          move(Number(slider.value) + step);
          if (Number(slider.value) >= last) stop();
        }, Math.max(60, (6000 * step) / (last - Number(slider.min))));
      });
      slider.parentElement.append(button);
    }

    form.reset(); // some browsers keep what was chosen before
    const remember = hdpm.cited(form, `explore-${name}`);
    form.addEventListener("input", draw);
    form.addEventListener("change", remember);
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const preset of form.querySelectorAll("button[value]")) {
      preset.addEventListener("click", () => {
        form.reset();
        hdpm.set(form, preset.value);
        draw();
        remember();
      });
    }
    form.hidden = false;
    draw();
  }
});
