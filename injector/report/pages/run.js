// --- steps -----------------------------------------------------------------------------------------

function dashed(u, from, to) {
  u.ctx.save();
  u.ctx.strokeStyle = color("--soft");
  u.ctx.setLineDash([6, 5]);
  u.ctx.beginPath();
  u.ctx.moveTo(...from);
  u.ctx.lineTo(...to);
  u.ctx.stroke();
  u.ctx.restore();
}
function labels(u, list) {
  const ratio = devicePixelRatio || 1, {left, top, width, height} = u.bbox, taken = [];
  u.ctx.save();
  u.ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  u.ctx.fillStyle = color("--text");
  u.ctx.textAlign = "left";
  for (const {x, y, text} of list) {
    const [px, py] = [u.valToPos(x, "x", true), u.valToPos(y, "y", true)], size = u.ctx.measureText(text).width;
    if (px < left || px > left + width || py < top - 9 * ratio || py > top + height) continue;
    const at = px + size + 8 * ratio > left + width ? px - size - 5 * ratio : px + 5 * ratio, line = Math.max(py + 4 * ratio, top + 9 * ratio);
    if (taken.some(([from, to, other]) => at < to && at + size > from && Math.abs(line - other) < 13 * ratio)) continue;
    taken.push([at, at + size, line]);
    u.ctx.fillText(text, at, line);
  }
  u.ctx.restore();
}
function steps(loop, number) {
  const longest = Math.max(...loop.ranks.flatMap(rank => rank.high.filter(each => each !== null)));
  const series = loop.ranks.map(rank => ({name: rank.name, values: rank.middle.map(known), low: rank.low.map(known), high: rank.high.map(known)}));
  const slow = loop.slowest.slice(0, 6).map(each => ({x: each.time + each.seconds / 2, y: each.seconds, text: `step ${each.step}: ${each.region}`}));
  plot(document.getElementById(`steps${number}`), kinds.find(each => each.key === "step").title, loop.times, series, seconds, {
    time: true, log: longest > 5 * loop.median, height: 260, least: 0,
    behind: u => {
      const [from, to] = [u.valToPos(loop.edges[0], "x", true), u.valToPos(loop.warmup, "x", true)];
      const left = Math.max(from, u.bbox.left), right = Math.min(to, u.bbox.left + u.bbox.width);
      if (loop.warmup > 0 && right > left) {
        u.ctx.fillStyle = color("--grid");
        u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
      }
    },
    before: u => {
      const y = u.valToPos(loop.median, "y", true);
      if (y >= u.bbox.top && y <= u.bbox.top + u.bbox.height) dashed(u, [u.bbox.left, y], [u.bbox.left + u.bbox.width, y]);
      labels(u, slow);
    },
  });
  const {edges, counts, above} = loop.distribution;
  const width = edges.length > 1 ? edges[1] - edges[0] : 1, most = Math.max(...counts);
  plot(document.getElementById(`distribution${number}`), "distribution", edges.slice(0, -1).map(each => each + width / 2),
    [{name: "", values: counts}], figure, {
      height: 260, least: 0, sayX: seconds, line: {paths: uPlot.paths.bars({size: [1, Infinity], gap: 1}), fill: () => color("--c0") + "99", width: 0, points: {show: false}},
      words: `distribution of the time of measured steps: half of them take at most ${seconds(loop.median)}, 95 % at most ${seconds(loop.p95)}`,
      aside: above ? `${above} above ${seconds(edges.at(-1))}` : "",
      before: u => {
        for (const each of [loop.median, loop.p95]) {
          const x = u.valToPos(each, "x", true);
          if (x > u.bbox.left && x < u.bbox.left + u.bbox.width) dashed(u, [x, u.bbox.top], [x, u.bbox.top + u.bbox.height]);
        }
        labels(u, [{x: loop.median, y: most * 1.02, text: "median"}, {x: loop.p95, y: most * .93, text: "p95"}]);
      },
    });
}

// --- the timeline ------------------------------------------------------------------------------------

function timeline(host, {loops, excerpts}) {
  const rows = new Map();
  for (const loop of loops) for (const each of loop.shares) rows.set(each.name, [...rows.get(each.name) ?? [], {edges: loop.edges, regions: each.regions}]);
  const names = [...rows.keys()], gap = 6, bottom = 24;
  const height = Math.max(24, Math.min(84, Math.round(300 / names.length)));
  const canvas = make("canvas", {role: "img"}), context = canvas.getContext("2d");
  const used = new Set(loops.flatMap(loop => loop.shares.flatMap(each => Object.entries(each.regions).filter(([, values]) => values.some(Boolean)).map(([name]) => name))));
  for (const each of excerpts) for (const [name] of each.names) used.add(name);
  const legend = make("div", {class: "legend"});
  for (const name of used) {
    const mark = make("i");
    mark.style.background = `var(${regionColor(name)})`;
    legend.append(make("span", {}, mark, name));
  }
  host.replaceChildren(make("figcaption", {}, make("span", {}, "what each rank does")), canvas, legend);
  host.setAttribute("aria-label", "what each rank does");
  canvas.setAttribute("aria-label", `${names.join(", ")}, by region: ${[...used].join(", ")}`);
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
      for (const excerpt of excerpts)
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
    names.forEach((name, at) => context.fillText(name.replace(/^process /, "pid ").slice(0, 11), LEFT - 8, at * (height + gap) + height / 2 + 4));
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
    for (const excerpt of excerpts) {
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
  wheel(canvas, event => moment(inCanvas(event)[0]));
  const fit = limit => { width = Math.min(Math.max(host.clientWidth - 20, 200), limit || Infinity); canvas.style.width = `${width}px`; draw(); };
  const seen = new ResizeObserver(() => fit());
  seen.observe(host);
  added({host: canvas, follow: draw, fit, end: () => seen.disconnect()});
  fit();
}

// --- flame graphs ----------------------------------------------------------------------------------

// The box that is clicked, and all around it, become as wide as the page; clicked again, they are as before.
function flame(graph) {
  graph.dataset.drawn = "";
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

// Draws what is in the page and has not been drawn.
function drawRun() {
  const blank = id => document.querySelector(`#${id}:empty`);
  data.loops.forEach((loop, number) => { if (blank(`steps${number}`)) steps(loop, number); });
  if (blank("timeline")) timeline(blank("timeline"), data);
  document.querySelectorAll(".flame:not([data-drawn])").forEach(flame);
}
