"use strict";
// What all pages share. All plots over time show the same part of it, and every text that comes from a run
// is set as text, never as markup.
let data = JSON.parse(document.getElementById("data").textContent);
const {plots: kinds, units} = data; // of the registry of metrics
const root = document.documentElement;
const LEFT = 68, RIGHT = 14; // gutters of everything over time, so that one moment is at one place
const color = name => getComputedStyle(root).getPropertyValue(name).trim();
const lineColor = at => () => color(`--c${at % 8}`);
const known = value => typeof value === "number" ? value : null;
const regionColor = name => `--r${data.colors[name] ?? data.colors.other}`;

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// --- figures in words ------------------------------------------------------------------------------

function figure(value) {
  const size = Math.abs(value);
  if (!size) return "0";
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2);
  return size >= 1000 ? value.toFixed(0) : String(+value.toPrecision(4));
}
function seconds(value) {
  const size = Math.abs(value);
  if (size >= 120) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (size >= 1 || !size) return `${figure(value)} s`;
  return size >= 1e-3 ? `${figure(value * 1e3)} ms` : `${figure(value * 1e6)} µs`;
}
function bytes(value) {
  for (const [factor, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (value >= factor) return `${+(value / factor).toPrecision(3)} ${unit}`;
  return `${Math.round(value)} B`;
}
const percent = value => `${+(100 * value).toPrecision(3)} %`;
// Hours, minutes and seconds as a clock has them: 1:02:03.
function clock(value, step) {
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9))), hours = Math.floor(value / 3600);
  const minutes = Math.floor(value / 60) % 60, rest = (value % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
// Distances between ticks: of seconds by tens, of minutes and hours as clocks have them.
const STEPS = [...Array(7).keys()].flatMap(at => [1, 2, 5].map(each => each * 10 ** (at - 6))).concat([10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800]);
// Ticks of one axis in one unit; `step` says how many digits tell them apart.
function moments(ticks) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1, largest = Math.max(...ticks.map(Math.abs));
  if (largest >= 120) return ticks.map(each => clock(each, step));
  const [unit, name] = largest >= 1 || step >= .1 ? [1, "s"] : [1e-3, "ms"];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return ticks.map(each => `${(each / unit).toFixed(digits)} ${name}`);
}

// --- what part of the time is shown ----------------------------------------------------------------

const whole = [0, Math.max(data.seconds ?? 0, 1e-3)];
let shown = [...whole];
// Each is {host, follow, fit}: of what is no longer in the page, nothing is drawn any more.
let drawings = [];
const added = drawing => drawings.push(drawing);
function still() {
  for (const each of drawings) if (!each.host.isConnected) each.end?.();
  drawings = drawings.filter(each => each.host.isConnected);
  return drawings;
}
const isWhole = () => shown[1] - shown[0] >= whole[1] * .9999;

function show(from, to) {
  const least = 2e-6, size = Math.min(Math.max(to - from, least), whole[1]);
  const start = Math.min(Math.max((from + to - size) / 2, whole[0]), whole[1] - size);
  shown = [start, start + size];
  for (const each of still()) each.follow?.();
  const range = document.getElementById("range");
  const text = isWhole() ? `${range.dataset.whole}, ${seconds(whole[1])}` : `${seconds(shown[0])} to ${seconds(shown[1])}: ${seconds(size)}`;
  if (range.textContent !== text) range.textContent = text;
}
// The time has grown: what showed all of it goes on to do so.
function grow(to) {
  const all = isWhole();
  whole[1] = Math.max(to, 1e-3);
  if (all) show(...whole);
}
const moves = {
  in: size => [shown[0] + size / 4, shown[1] - size / 4], out: size => [shown[0] - size / 2, shown[1] + size / 2],
  left: size => [shown[0] - size / 3, shown[1] - size / 3], right: size => [shown[0] + size / 3, shown[1] + size / 3],
  all: () => whole,
};
const move = how => {
  let [from, to] = moves[how](shown[1] - shown[0]);
  if (how === "left" && from < whole[0]) [from, to] = [whole[0], to - from + whole[0]];
  if (how === "right" && to > whole[1]) [from, to] = [from - to + whole[1], whole[1]];
  show(from, to);
};
const KEYS = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all", Home: "all"};
// Ctrl and the wheel, or two fingers on a pad, zoom around the pointer.
function wheel(host, momentAt) {
  host.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = momentAt(event), by = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 120);
    show(at - (at - shown[0]) * by, at + (shown[1] - at) * by);
  }, {passive: false});
}

// --- plots -----------------------------------------------------------------------------------------

const axis = (more) => ({stroke: () => color("--soft"), font: "11px system-ui, sans-serif", grid: {stroke: () => color("--grid"), width: 1},
  ticks: {stroke: () => color("--line"), width: 1, size: 4}, ...more});

// What a plot shows, for those who do not see it.
function inWords(title, series, say) {
  const parts = series.slice(0, 8).map(({name, values, low, high}) => {
    const least = (low ?? values).filter(each => each !== null && each !== undefined), most = (high ?? values).filter(each => each !== null && each !== undefined);
    if (!least.length) return `${name}: nothing`;
    const [from, to] = [least.reduce((a, b) => Math.min(a, b)), most.reduce((a, b) => Math.max(a, b))];
    return from === to ? `${name}: ${say(from)}` : `${name}: from ${say(from)} to ${say(to)}, ${say(values.findLast(each => each !== null && each !== undefined) ?? to)} at the end`;
  });
  return `${title}. ${parts.join("; ")}${series.length > 8 ? `; and ${series.length - 8} more` : ""}`;
}

// What a reader has chosen of a plot, by its id: it is the same when the plot is drawn anew.
const choices = new Map();
// Series are {name, values, low, high}; those with low and high have a band between these.
function plot(host, title, x, series, say, options = {}) {
  const single = series.length === 1, chosen = choices.get(host.id) ?? {log: options.log ?? false, off: new Set()};
  choices.set(host.id, chosen);
  const caption = make("figcaption", {}, make("span", options.about ? {title: options.about} : {}, title));
  const holder = make("div", {role: "img"}), legend = make("div", {class: "legend"});
  host.replaceChildren(caption, holder, ...(single ? [] : [legend]));
  if (options.time) {
    host.tabIndex = 0;
    host.setAttribute("aria-label", title);
    host.setAttribute("aria-describedby", "keys");
  }
  const lines = [{}], columns = [x], bands = [], of = [];
  series.forEach((each, at) => {
    const stroke = each.stroke ?? lineColor(at);
    if (each.high) {
      for (const edge of [each.high, each.low]) { columns.push(edge); lines.push({stroke: () => stroke() + "55", width: .6, points: {show: false}, spanGaps: true}); }
      bands.push({series: [lines.length - 2, lines.length - 1], fill: () => stroke() + "2e"});
    }
    columns.push(each.values);
    lines.push({stroke, width: 1.4, spanGaps: true, points: {show: u => u.data[0].length < 60, size: 4}, ...(options.line ?? {}), ...(each.line ?? {})});
    of.push(each.high ? [lines.length - 3, lines.length - 2, lines.length - 1] : [lines.length - 1]);
  });
  const later = [];
  const readings = series.map((each, at) => {
    const value = make("b"), mark = make("i");
    mark.style.background = `var(${each.variable ?? `--c${at % 8}`})`;
    if (single) {
      caption.append(...(each.name ? [make("span", {class: "soft"}, each.name)] : []), value);
      return value;
    }
    const entry = make("button", {type: "button", "aria-pressed": "true"}, mark, each.name, " ", value);
    const set = on => {
      entry.setAttribute("aria-pressed", on);
      for (const number of of[at]) u.setSeries(number, {show: on});
      chosen.off[on ? "delete" : "add"](each.name);
    };
    entry.addEventListener("click", () => set(entry.getAttribute("aria-pressed") !== "true"));
    if (chosen.off.has(each.name)) later.push(() => set(false));
    legend.append(entry);
    return value;
  });
  let {log} = chosen, tables = columns, described = series;
  const words = () => holder.setAttribute("aria-label", options.words ?? inWords(title, described, say));
  const size = () => ({width: Math.max(holder.clientWidth, 120), height: options.height ?? 190});
  const draw = () => new uPlot({
    ...size(), legend: {show: false}, padding: [10, RIGHT, 0, 0],
    scales: {x: {time: false, ...(options.time ? {range: () => shown} : {})}, y: {distr: log ? 3 : 1,
      ...(log ? {} : {range: (u, low, high) => options.least !== undefined ? uPlot.rangeNum(Math.min(options.least, low ?? 0), high ?? 1, {min: {pad: 0, soft: options.least, mode: 1}, max: {pad: .08}}) : uPlot.rangeNum(low ?? 0, high ?? 1, .1, false)})}},
    axes: [axis({values: (u, ticks) => options.time ? moments(ticks) : ticks.map(options.sayX), space: options.time ? 76 : 56, size: 30, ...(options.time ? {incrs: STEPS} : {}), ...(options.splits ? {splits: () => options.splits} : {})}),
      axis({size: LEFT, space: log ? 22 : 34, values: (u, ticks) => ticks.map(each => each === null ? "" : say(each)), ...(log ? {filter: (u, ticks) => ticks.map(each => /^[125]/.test(each.toExponential()) ? each : null)} : {})})],
    series: lines, bands,
    cursor: {y: false, points: {size: 6}, ...(options.time ? {sync: {key: "time", scales: ["x", null]}} : {}),
      drag: {x: Boolean(options.time), y: false, setScale: false},
      bind: {dblclick: () => () => { if (options.time) move("all"); }}},
    hooks: {
      setCursor: [u => readings.forEach((value, at) => {
        const found = u.cursor.idx === null || u.cursor.idx === undefined ? null : near(u.data[of[at].at(-1)], u.cursor.idx, options.time);
        value.textContent = found === null ? "" : series[at].high ? `${say(found[0])}, at most ${say(u.data[of[at][0]][found[1]])}` : say(found[0]);
      })],
      setSelect: [u => {
        if (options.time && u.select.width > 3) {
          const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
          u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
          show(from, to);
        }
      }],
      drawClear: [u => options.behind?.(u)],
      draw: [u => options.before?.(u)],
    },
  }, tables, holder);
  let u = draw();
  later.forEach(each => each());
  words();
  if (options.log !== undefined) {
    const button = make("button", {type: "button", class: "grow"}, log ? "linear" : "logarithmic");
    button.addEventListener("click", () => {
      chosen.log = log = !log;
      button.textContent = log ? "linear" : "logarithmic";
      u.destroy();
      u = draw();
    });
    caption.append(button);
  }
  if (options.aside) caption.append(make("span", {class: "soft grow"}, options.aside));
  if (options.time) wheel(holder, event => u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x"));
  const seen = new ResizeObserver(() => { if (holder.clientWidth && holder.clientWidth !== u.width) u.setSize(size()); });
  seen.observe(holder);
  added({host,
    follow: options.time ? () => u.setScale("x", {min: shown[0], max: shown[1]}) : undefined,
    fit: width => { u.setSize(width ? {...size(), width: Math.min(width, size().width)} : size()); u.redraw(false); },
    end: () => { seen.disconnect(); u.destroy(); }});
  // New values of the same lines, which have no bands.
  return (x, values) => {
    tables = [x, ...values];
    described = series.map((each, at) => ({name: each.name, values: values[at]}));
    u.setData(tables);
    words();
  };
}
// The value at an index, else the nearest before it: lines of different times stand in one table.
function near(column, at, back) {
  for (let n = at; n >= 0 && n > at - (back ? 400 : 1); n--) if (column[n] !== null && column[n] !== undefined) return [column[n], n];
  return null;
}

// Units that have words of their own; of a rate the unit stands in the title.
const SAY = {s: seconds, B: bytes, "1": percent};
const sayer = unit => {
  const [name, factor] = units[unit];
  return SAY[unit] ?? (value => `${figure(value * factor)}${name && !name.includes("/") ? ` ${name}` : ""}`);
};
const LINES = {rate: 40, load: 16, power: 16, memory: 16}, FEW = 8; // of one plot
const plotted = new Map();
// Draws lines of points over time, by kind and name; again, with what has come since.
function overTime(series, unit = "") {
  const host = document.getElementById("series");
  for (const {key, title, about, unit: kind} of kinds) {
    const ofDevices = ["load", "power", "memory"].includes(key), say = sayer(kind), least = kind ? 0 : undefined;
    const found = Object.entries(series[key] ?? {}).filter(([, line]) => line.length > 1).slice(0, LINES[key] ?? FEW);
    const names = JSON.stringify([found.map(([name]) => name), key === "rate" && unit]), before = plotted.get(key);
    if (before && before.names !== names) { before.place.remove(); plotted.delete(key); }
    if (!found.length) continue;
    const joined = uPlot.join(found.map(([, line]) => [line.map(([time]) => time), line.map(([, value]) => known(value))]));
    if (plotted.has(key)) { before.update(joined[0], joined.slice(1)); continue; }
    const place = make("figure", {class: "plot", id: `over-time-${key}`});
    document.getElementById("over-time").hidden = false;
    const after = kinds.slice(kinds.findIndex(each => each.key === key) + 1).map(each => plotted.get(each.key)?.place).find(Boolean);
    host.insertBefore(place, after ?? null);
    const named = ofDevices ? name => `device ${name}` : name => name;
    const full = key === "rate" && unit ? `${title}, ${unit}` : title;
    const update = plot(place, full, joined[0], found.map(([name], at) => ({name: named(name), values: joined[at + 1]})), say, {time: true, least, height: 170, about});
    plotted.set(key, {names, place, update});
  }
}

// --- tables -------------------------------------------------------------------------------------------

const UNITS = {"µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12};
function worth(text) {
  const parts = [...text.matchAll(/(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([^\d\s]*)/g)];
  if (!parts.length || !/^[-+\d]/.test(text.trim())) return null;
  return parts.reduce((sum, [, number, unit]) => sum + number * (UNITS[unit] ?? 1), 0);
}
function sorted(table, at, down) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  for (const each of heads) each.removeAttribute("aria-sort");
  heads[at].setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = row => row.cells[at].dataset.value ?? row.cells[at].textContent, sign = down ? -1 : 1;
  body.append(...[...body.rows].map(row => [row, value(row), worth(value(row))]).sort(([, a, x], [, b, y]) => {
    if (x !== null && y !== null) return sign * (x - y);
    if ((x === null) !== (y === null)) return x === null ? 1 : -1; // what has no figure stands last
    return sign * a.localeCompare(b, undefined, {numeric: true});
  }).map(([row]) => row));
}
function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (!head.textContent.trim()) return;
    const button = make("button", {type: "button"}, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => sorted(table, at, head.getAttribute("aria-sort") !== "descending"));
  });
}
function searched(input) {
  const found = input.closest("details, section").querySelectorAll("tbody tr, li");
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase().split(/\s+/);
    for (const each of found) each.hidden = !wanted.every(word => each.textContent.toLowerCase().includes(word));
  });
}
function tables(host) {
  host.querySelectorAll("table.sortable").forEach(sortable);
  host.querySelectorAll("input[type=search]").forEach(searched);
}

// --- the frame -------------------------------------------------------------------------------------

function contents() {
  const found = [...document.querySelectorAll("main section[id] > h2")].filter(each => !each.parentElement.hidden);
  const place = document.getElementById("contents");
  const links = found.map(each => [each.parentElement.id, each.textContent]);
  if (place.dataset.of === JSON.stringify(links)) return;
  place.dataset.of = JSON.stringify(links);
  place.replaceChildren(...links.map(([id, text]) => make("a", {href: `#${encodeURIComponent(id)}`}, text)));
  place.hidden = links.length < 4;
}
function frame() {
  const tools = document.getElementById("tools");
  tools.hidden = !drawings.some(each => each.follow);
  contents();
}
document.getElementById("tools").addEventListener("click", event => { const how = event.target.dataset.do; if (how) move(how); });
document.addEventListener("click", event => {
  const link = event.target.closest?.("a[href^='#']");
  const folded = link && document.getElementById(decodeURIComponent(link.hash.slice(1)))?.closest("details");
  if (folded) folded.open = true;
  if (!event.target.classList.contains("show")) return;
  show(+event.target.dataset.from, +event.target.dataset.to);
  document.getElementById("timeline").scrollIntoView({block: "center"});
});
document.addEventListener("keydown", event => {
  if (KEYS[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.matches?.("figure.plot[tabindex]")) { event.preventDefault(); move(KEYS[event.key]); }
});
const again = width => still().forEach(each => each.fit?.(width));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => again());
addEventListener("beforeprint", () => { root.dataset.print = ""; document.querySelectorAll("details").forEach(each => { each.open = true; }); again(680); });
addEventListener("afterprint", () => { delete root.dataset.print; again(); });
