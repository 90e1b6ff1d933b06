"use strict";
// Draws what stands as data in the page. All plots over time show the same part of the run, and every
// text that comes from the run is set as text, never as markup.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const LEFT = 68, RIGHT = 14; // gutters of everything over time, so that one moment is at one place
const color = name => getComputedStyle(root).getPropertyValue(name).trim();
const lineColor = at => () => color(`--c${at % 8}`);
const known = value => typeof value === "number" ? value : null;
const LAST = Object.keys(data.colors).length && data.colors.other;
const regionColor = name => `--r${data.colors[name] ?? LAST}`;

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

// --- what part of the run is shown ----------------------------------------------------------------

const whole = [0, Math.max(data.seconds, 1e-3)];
let shown = [...whole];
const followers = [];
const redraws = [];

function show(from, to) {
  const least = 2e-6, size = Math.min(Math.max(to - from, least), whole[1]);
  const start = Math.min(Math.max((from + to - size) / 2, whole[0]), whole[1] - size);
  shown = [start, start + size];
  for (const each of followers) each();
  const all = size >= whole[1] * .9999;
  document.getElementById("range").textContent = all ? `the whole run, ${seconds(whole[1])}`
    : `${seconds(shown[0])} to ${seconds(shown[1])}: ${seconds(size)}`;
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
const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all", Home: "all"};

// --- plots -----------------------------------------------------------------------------------------

const axis = (more) => ({stroke: () => color("--soft"), font: "11px system-ui, sans-serif", grid: {stroke: () => color("--grid"), width: 1},
  ticks: {stroke: () => color("--line"), width: 1, size: 4}, ...more});

// Series are {name, values, low, high}; those with low and high have a band between these.
function plot(host, title, x, series, say, options = {}) {
  const caption = make("figcaption", {}, make("span", {}, title));
  const holder = make("div"), legend = make("div", {class: "legend"});
  host.replaceChildren(caption, holder, legend);
  host.setAttribute("aria-label", title);
  const lines = [{}], columns = [x], bands = [], of = [];
  series.forEach((each, at) => {
    const stroke = each.stroke ?? lineColor(at);
    if (each.high) {
      for (const edge of [each.high, each.low]) { columns.push(edge); lines.push({stroke: () => stroke() + "55", width: .6, points: {show: false}, spanGaps: true}); }
      bands.push({series: [lines.length - 2, lines.length - 1], fill: () => stroke() + "2e"});
    }
    columns.push(each.values);
    lines.push({stroke, width: 1.4, spanGaps: true, points: {show: each.values.length < 60, size: 4}, ...(options.line ?? {})});
    of.push(each.high ? [lines.length - 3, lines.length - 2, lines.length - 1] : [lines.length - 1]);
  });
  const said = series.map((each, at) => {
    const value = make("b"), stroke = each.stroke ?? lineColor(at), mark = make("i");
    const entry = series.length > 1 ? make("button", {type: "button", "aria-pressed": "true"}, mark, each.name, " ", value)
      : make("span", {}, mark, each.name, " ", value);
    mark.style.background = `var(${each.variable ?? `--c${at % 8}`})`;
    entry.addEventListener("click", () => {
      const on = entry.getAttribute("aria-pressed") !== "true";
      if (series.length < 2) return;
      entry.setAttribute("aria-pressed", on);
      for (const number of of[at]) u.setSeries(number, {show: on});
    });
    legend.append(entry);
    return value;
  });
  let log = options.log ?? false;
  const size = () => ({width: Math.max(holder.clientWidth, 120), height: options.height ?? 190});
  const draw = () => new uPlot({
    ...size(), legend: {show: false}, padding: [10, RIGHT, 0, 0],
    scales: {x: {time: false, ...(options.time ? {range: () => shown} : {})}, y: {distr: log ? 3 : 1,
      ...(log ? {} : {range: (u, low, high) => options.least !== undefined ? uPlot.rangeNum(Math.min(options.least, low ?? 0), high ?? 1, {min: {pad: 0, soft: options.least, mode: 1}, max: {pad: .08}}) : uPlot.rangeNum(low ?? 0, high ?? 1, .1, false)})}},
    axes: [axis({values: (u, ticks) => options.time ? moments(ticks) : ticks.map(options.sayX), space: 76, size: 30, ...(options.time ? {incrs: STEPS} : {})}),
      axis({size: LEFT, space: log ? 22 : 34, values: (u, ticks) => ticks.map(each => each === null ? "" : say(each)), ...(log ? {filter: (u, ticks) => ticks.map(each => /^[125]/.test(each.toExponential()) ? each : null)} : {})})],
    series: lines, bands,
    cursor: {y: false, points: {size: 6}, ...(options.time ? {sync: {key: "run", scales: ["x", null]}} : {}),
      drag: {x: Boolean(options.time), y: false, setScale: false},
      bind: {dblclick: () => () => { if (options.time) move("all"); }}},
    hooks: {
      setCursor: [u => said.forEach((value, at) => {
        const found = u.cursor.idx === null || u.cursor.idx === undefined ? null : near(columns[of[at].at(-1)], u.cursor.idx, options.time);
        value.textContent = found === null ? "" : series[at].high ? `${say(found[0])}, at most ${say(series[at].high[found[1]])}` : say(found[0]);
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
  }, columns, holder);
  let u = draw();
  if (options.log !== undefined) {
    const button = make("button", {type: "button", class: "grow"}, log ? "linear" : "logarithmic");
    button.addEventListener("click", () => {
      log = !log;
      button.textContent = log ? "linear" : "logarithmic";
      u.destroy();
      u = draw();
    });
    caption.append(button);
  }
  if (options.aside) caption.append(make("span", {class: "soft grow"}, options.aside));
  if (options.time) followers.push(() => u.setScale("x", {min: shown[0], max: shown[1]}));
  new ResizeObserver(() => { if (holder.clientWidth && holder.clientWidth !== u.width) u.setSize(size()); }).observe(holder);
  redraws.push(width => { u.setSize(width ? {...size(), width: Math.min(width, size().width)} : size()); u.redraw(false); });
  return u;
}
// The value at an index, else the nearest before it: lines of different times stand in one table.
function near(column, at, back) {
  for (let n = at; n >= 0 && n > at - (back ? 400 : 1); n--) if (column[n] !== null && column[n] !== undefined) return [column[n], n];
  return null;
}

function steps(loop, number) {
  const longest = Math.max(...loop.ranks.flatMap(rank => rank.high.filter(each => each !== null)));
  const series = loop.ranks.map(rank => ({name: rank.name, values: rank.middle.map(known), low: rank.low.map(known), high: rank.high.map(known)}));
  plot(document.getElementById(`steps${number}`), "time of a step", loop.times, series, seconds, {
    time: true, log: longest > 5 * loop.median, height: 260, least: 0,
    behind: u => {
      const [from, to] = [u.valToPos(0, "x", true), u.valToPos(loop.warmup, "x", true)];
      const left = Math.max(from, u.bbox.left), right = Math.min(to, u.bbox.left + u.bbox.width);
      if (loop.warmup > 0 && right > left) {
        u.ctx.fillStyle = color("--grid");
        u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
      }
    },
    before: u => {
      const y = u.valToPos(loop.median, "y", true);
      if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
      u.ctx.save();
      u.ctx.strokeStyle = color("--soft");
      u.ctx.setLineDash([6, 5]);
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
      u.ctx.restore();
    },
  });
  const {edges, counts, above} = loop.distribution;
  const width = edges.length > 1 ? edges[1] - edges[0] : 1;
  plot(document.getElementById(`distribution${number}`), "distribution", edges.slice(0, -1).map(each => each + width / 2),
    [{name: "measured steps", values: counts}], figure, {
      height: 260, least: 0, sayX: seconds, line: {paths: uPlot.paths.bars({size: [1, Infinity], gap: 1}), fill: () => color("--c0") + "99", width: 0, points: {show: false}},
      aside: above ? `${above} above ${seconds(edges.at(-1))}` : "",
    });
}

const KINDS = [["rate", "throughput", figure, 0], ["loss", "loss"], ["load", "load of devices", percent, 0], ["power", "power of devices", value => `${figure(value)} W`, 0],
  ["memory", "memory of devices", bytes, 0], ["cpu", "processors in use", percent, 0], ["rss", "memory of the program", bytes, 0]];
function overTime() {
  const host = document.getElementById("series");
  for (const [key, title, say, least] of KINDS) {
    const found = Object.entries(data.series[key] ?? {}).filter(([, line]) => line.length > 1);
    if (!found.length) continue;
    const joined = uPlot.join(found.map(([, line]) => [line.map(([time]) => time), line.map(([, value]) => known(value))]));
    const place = make("figure", {class: "plot", id: `over-time-${key}`});
    document.getElementById("over-time").hidden = false;
    host.append(place);
    const named = ["load", "power", "memory"].includes(key) ? name => `device ${name}` : name => name;
    plot(place, title, joined[0], found.map(([name], at) => ({name: named(name), values: joined[at + 1]})), say ?? figure, {time: true, least, height: 170});
  }
}

// --- the timeline ------------------------------------------------------------------------------------

function timeline(host) {
  const rows = new Map();
  for (const loop of data.loops) for (const each of loop.shares) rows.set(each.name, [...rows.get(each.name) ?? [], {edges: loop.edges, regions: each.regions}]);
  const names = [...rows.keys()], gap = 6, bottom = 24;
  const height = Math.max(24, Math.min(84, Math.round(300 / names.length)));
  const canvas = make("canvas"), context = canvas.getContext("2d");
  const used = new Set(data.loops.flatMap(loop => loop.shares.flatMap(each => Object.entries(each.regions).filter(([, values]) => values.some(Boolean)).map(([name]) => name))));
  for (const each of data.excerpts) for (const [name] of each.names) used.add(name);
  const legend = make("div", {class: "legend"});
  for (const name of used) {
    const mark = make("i");
    mark.style.background = `var(${regionColor(name)})`;
    legend.append(make("span", {}, mark, name));
  }
  host.replaceChildren(make("figcaption", {}, make("span", {}, "what each rank does")), canvas, legend);
  host.setAttribute("aria-label", "timeline of regions, by rank; plus and minus zoom, arrows move, 0 shows the whole run");
  let width = 300, selecting = null;
  const total = names.length * (height + gap) + bottom;
  const inner = () => width - LEFT - RIGHT;
  const place = time => LEFT + (time - shown[0]) / (shown[1] - shown[0]) * inner();
  const moment = x => shown[0] + (x - LEFT) / inner() * (shown[1] - shown[0]);
  const close = excerpt => shown[1] - shown[0] < 60 * (excerpt.end - excerpt.begin);

  function buckets(row, top) {
    for (const {edges, regions} of row) {
      const size = edges[1] - edges[0], entries = Object.entries(regions);
      const first = Math.max(0, Math.floor((shown[0] - edges[0]) / size)), last = Math.min(edges.length - 1, Math.ceil((shown[1] - edges[0]) / size));
      const fills = entries.map(([name]) => color(regionColor(name)));
      for (let at = first; at < last; at++) {
        let y = top + height;
        const x = place(edges[at]), right = place(edges[at + 1]);
        entries.forEach(([, values], number) => {
          const part = Math.max(0, Math.min(1, values[at])) * height;
          context.fillStyle = fills[number];
          context.fillRect(x, y - part, Math.max(right - x, .5) + .3, part);
          y -= part;
        });
      }
    }
  }
  function spans(excerpt, rank, top) {
    const {spans: list} = rank, fills = excerpt.names.map(([name]) => color(regionColor(name)));
    let deepest = 0;
    for (let at = 2; at < list.length; at += 4) deepest = Math.max(deepest, list[at]);
    const part = height / (deepest + 1), left = Math.max(place(excerpt.begin), LEFT), right = Math.min(place(excerpt.end), width - RIGHT);
    context.fillStyle = color("--card");
    context.fillRect(left, top, right - left, height);
    context.fillStyle = color(regionColor("other"));
    for (let at = 0; at < rank.steps.length; at += 2) {
      const x = place(excerpt.begin + rank.steps[at] * 1e-6), end = place(excerpt.begin + rank.steps[at + 1] * 1e-6);
      context.globalAlpha = .35;
      context.fillRect(x, top, end - x, height);
      context.globalAlpha = 1;
      context.fillRect(x, top, 1, height);
    }
    for (let at = 0; at < list.length; at += 4) {
      const from = excerpt.begin + list[at] * 1e-6, x = place(from), end = place(from + list[at + 1] * 1e-6);
      if (end < LEFT || x > width - RIGHT) continue;
      const y = top + list[at + 2] * part;
      context.fillStyle = fills[list[at + 3]];
      context.fillRect(x, y, Math.max(end - x - .5, .7), part - .5);
      if (end - x > 46 && part >= 12) {
        context.save();
        context.beginPath();
        context.rect(x, y, end - x - 3, part);
        context.clip();
        context.fillStyle = "#14161a";
        context.fillText(excerpt.names[list[at + 3]][0], Math.max(x, LEFT) + 4, y + part / 2 + 4);
        context.restore();
      }
    }
  }
  function draw() {
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(total * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(total * ratio);
      canvas.style.height = `${total}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, total);
    context.font = "11px system-ui, sans-serif";
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, inner(), total - bottom);
    context.clip();
    names.forEach((name, at) => {
      const top = at * (height + gap);
      context.fillStyle = color("--grid");
      context.fillRect(LEFT, top, inner(), height);
      buckets(rows.get(name), top);
      for (const excerpt of data.excerpts)
        if (close(excerpt) && excerpt.end > shown[0] && excerpt.begin < shown[1])
          for (const rank of excerpt.ranks) if (rank.name === name) spans(excerpt, rank, top);
    });
    if (selecting) {
      context.fillStyle = color("--accent") + "33";
      context.fillRect(Math.min(...selecting), 0, Math.abs(selecting[1] - selecting[0]), total - bottom);
    }
    context.restore();
    context.fillStyle = color("--soft");
    context.textAlign = "right";
    names.forEach((name, at) => context.fillText(name.length > 11 ? name.slice(0, 10) + "…" : name, LEFT - 8, at * (height + gap) + height / 2 + 4));
    context.textAlign = "center";
    const ticks = spread(Math.max(2, Math.floor(inner() / 90)));
    moments(ticks).forEach((text, at) => context.fillText(text, Math.min(Math.max(place(ticks[at]), LEFT + 14), width - RIGHT - 10), total - 7));
    context.textAlign = "left";
  }
  function spread(count) {
    const rough = (shown[1] - shown[0]) / count, step = STEPS.find(each => each >= rough) ?? rough;
    const ticks = [];
    for (let at = Math.ceil(shown[0] / step); at * step <= shown[1]; at++) ticks.push(at * step);
    return ticks.length ? ticks : [shown[0]];
  }
  function at(x, y) {
    const number = Math.floor(y / (height + gap)), name = names[number], time = moment(x);
    if (!name || x < LEFT) return "";
    for (const excerpt of data.excerpts) {
      if (!close(excerpt) || time < excerpt.begin || time > excerpt.end) continue;
      const rank = excerpt.ranks.find(each => each.name === name);
      if (!rank) continue;
      const when = (time - excerpt.begin) * 1e6, inside = [];
      for (let n = 0; n < rank.spans.length; n += 4)
        if (rank.spans[n] <= when && when <= rank.spans[n] + rank.spans[n + 1]) inside.push(n);
      const lines = inside.map(n => `${excerpt.names[rank.spans[n + 3]].filter(Boolean).join("  ")}  ${seconds(rank.spans[n + 1] * 1e-6)}`);
      return [`${name} at ${seconds(time)}`, ...lines].join("\n");
    }
    for (const {edges, regions} of rows.get(name)) {
      const bucket = Math.floor((time - edges[0]) / (edges[1] - edges[0]));
      const parts = Object.entries(regions).map(([region, values]) => [region, values[bucket]]).filter(([, part]) => part > .001).sort((a, b) => b[1] - a[1]);
      if (parts.length) return [`${name} at ${seconds(time)}`, ...parts.map(([region, part]) => `${region}  ${percent(part)}`)].join("\n");
    }
    return `${name} at ${seconds(time)}: outside of steps`;
  }
  const tip = document.getElementById("tip");
  const inCanvas = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointermove", event => {
    const [x, y] = inCanvas(event), text = at(x, y);
    if (selecting) { selecting[1] = Math.min(Math.max(x, LEFT), width - RIGHT); draw(); }
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointerdown", event => {
    if (event.button) return;
    const [x] = inCanvas(event);
    selecting = [x, x];
    canvas.setPointerCapture(event.pointerId);
  });
  const end = keep => {
    const [from, to] = (selecting ?? [0, 0]).map(moment);
    const far = selecting && Math.abs(selecting[0] - selecting[1]) > 4;
    selecting = null;
    if (keep && far) show(Math.min(from, to), Math.max(from, to));
    else draw();
  };
  canvas.addEventListener("pointerup", () => end(true));
  canvas.addEventListener("pointercancel", () => end(false));
  canvas.addEventListener("dblclick", () => move("all"));
  const fit = limit => { width = Math.min(Math.max(host.clientWidth - 20, 200), limit || Infinity); canvas.style.width = `${width}px`; draw(); };
  followers.push(draw);
  redraws.push(fit);
  new ResizeObserver(() => fit()).observe(host);
  fit();
}

// --- tables -------------------------------------------------------------------------------------------

const UNITS = {"µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12};
function worth(text) {
  const parts = [...text.matchAll(/(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([^\d\s]*)/g)];
  if (!parts.length || !/^[-+\d]/.test(text.trim())) return null;
  return parts.reduce((sum, [, number, unit]) => sum + number * (UNITS[unit] ?? 1), 0);
}
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, at) => {
    if (!head.textContent.trim()) return;
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = row => row.cells[at].textContent, sign = down ? -1 : 1;
      const order = (a, b) => {
        const [x, y] = [worth(value(a)), worth(value(b))];
        return sign * (x !== null && y !== null ? x - y : value(a).localeCompare(value(b), undefined, {numeric: true}));
      };
      body.append(...[...body.rows].sort(order));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
  });
}

// --- flame graphs ----------------------------------------------------------------------------------

// The box that is clicked, and all around it, become as wide as the page; clicked again, they are as before.
function flame(graph) {
  let chosen = null;
  graph.addEventListener("click", event => {
    const box = event.target.closest(".box");
    if (!box) return;
    chosen = chosen === box || box === graph.firstElementChild ? null : box;
    graph.classList.toggle("zoomed", chosen !== null);
    for (const each of graph.querySelectorAll(".box")) {
      const around = chosen !== null && each.contains(chosen);
      each.classList.toggle("way", around);
      each.classList.toggle("on", around || (chosen !== null && chosen.contains(each)));
    }
  });
}

// --- all of it -------------------------------------------------------------------------------------

data.loops.forEach(steps);
overTime();
if (data.loops.length) timeline(document.getElementById("timeline"));
document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll(".flame").forEach(flame);
const tools = document.getElementById("tools");
tools.hidden = !followers.length;
tools.addEventListener("click", event => { const how = event.target.dataset.do; if (how) move(how); });
document.addEventListener("click", event => {
  if (!event.target.classList.contains("show")) return;
  show(+event.target.dataset.from, +event.target.dataset.to);
  document.getElementById("timeline").scrollIntoView({block: "center"});
});
document.addEventListener("keydown", event => {
  if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.closest?.("figure.plot")) { event.preventDefault(); move(keys[event.key]); }
});
document.getElementById("search")?.addEventListener("input", event => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const each of document.querySelectorAll(".packages li")) each.hidden = !each.textContent.toLowerCase().includes(wanted);
});
const again = width => redraws.forEach(each => each(width));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => again());
addEventListener("beforeprint", () => { root.dataset.print = ""; document.querySelectorAll("details").forEach(each => { each.open = true; }); again(680); });
addEventListener("afterprint", () => { delete root.dataset.print; again(); });
show(...whole);
root.dataset.drawn = "";
})();
