
// --- a page that is fed while what it is about goes on ------------------------------------------------

const byId = name => document.getElementById(name);
const scaled = (value, by) => value == null ? "" : text(value * by);
const inUnit = (value, unit) => scaled(value, units[unit][1]);
const named = (name, unit) => `${name}, ${units[unit][0]}`;
const share = value => value == null ? "" : `${(100 * value).toFixed(0)} %`;
function text(value) {
  if (value == null || typeof value === "string") return value ?? "";
  const size = Math.abs(value);
  return size >= 10 && size < 1000 ? value.toFixed(1) : figure(+value.toPrecision(3));
}
function table(name, heads, rows) {
  byId(`live-${name}`).hidden = !rows.length;
  const used = heads.map((_, at) => rows.some(row => row[at] != null && row[at] !== ""));
  const cells = (row, tag) => heads.flatMap(([title, kind = "number"], at) => {
    if (!used[at]) return [];
    const {text: content, link} = typeof row[at] === "object" && row[at] ? row[at] : {text: String(row[at] ?? "")};
    const made = make(tag === "th" && !content ? "td" : tag, {class: kind}, link ? make("a", {href: link}, content) : content);
    if (title === "state" && tag === "td") made.className = `text state ${content}`;
    if (tag === "th" && content) made.scope = "col";
    return [made];
  });
  byId(name).replaceChildren(make("thead", {}, make("tr", {}, ...cells(heads.map(([title]) => title), "th"))),
    make("tbody", {}, ...rows.map(row => make("tr", {}, ...cells(row, "td")))));
}
function tiles(now) {
  const made = [], ended = now.state === "ended";
  const add = (value, label) => { if (value != null && value !== "") made.push(make("li", {}, make("b", {}, String(value)), make("span", {}, label))); };
  add(now.steps + (now.goal ? ` of ${now.goal}` : ""), now.benchmarks ? "jobs" : "steps");
  if (now.failed) add(now.failed, "failed");
  add(text(now.rate), now.unit);
  add(text(now.overall), now.unit + (now.rate == null ? "" : ", overall"));
  add(scaled(now.step, 1000), "ms a step");
  for (const [name, value] of Object.entries(now.values).slice(0, 4)) add(text(value), name);
  if (!ended) add(now.position, "position");
  if (now.left != null && !ended) add(seconds(now.left), {epoch: "left of the epoch", training: "of training left"}[now.left_of] || "left");
  byId("figures").replaceChildren(...made);
}
function parts(regions) {
  const all = Object.entries(regions).sort((a, b) => b[1] - a[1]), rest = 1 - all.reduce((sum, [, part]) => sum + part, 0);
  byId("step").hidden = !all.length;
  if (rest > .005) all.push(["other", rest]);
  const shade = name => `background:var(${regionColor(name)})`;
  byId("parts").replaceChildren(...all.map(([name, part]) => make("i", {style: `width:${100 * Math.max(part, 0)}%;${shade(name)}`, title: `${name} ${share(part)}`})));
  byId("shares").replaceChildren(...all.map(([name, part]) => make("span", {}, make("i", {style: shade(name)}), `${name} ${share(part)}`)));
}
function rows(now) {
  const who = row => row.rank == null ? `process ${row.pid}` : `rank ${row.rank}`, own = now.unit;
  const benchmarks = now.benchmarks ?? [];
  const linked = (text, each) => each && each.state !== "queued" ? {text, link: `runs/${encodeURIComponent(each.key)}/`} : text;
  table("benchmarks", [["benchmark", "text"], ["state", "text"], ["rate"], ["", "text"], ["jobs"], ["of"], ["", "text why"]],
    benchmarks.map(row => [linked(row.name, row.processes.length === 1 ? row.processes[0] : null), row.state, text(row.rate), row.rate == null ? "" : row.unit, row.done, row.jobs, row.reason]));
  table("processes", [["process", "text"], ["devices", "text"], ["state", "text"], ["steps"], ["of"], ["rate"], ["", "text"], ["ms a step"], ["loss"], ["ranks"], [named("memory", "B")], ["", "text why"]],
    benchmarks.flatMap(row => row.state === "queued" ? [] : row.processes.map(each => [linked(each.key, each), each.devices.join(", "), each.state, each.steps || "", each.goal, text(each.rate),
      each.rate == null ? "" : each.unit, scaled(each.step, 1000), text(each.loss), each.ranks > 1 ? each.ranks : "", inUnit(each.rss, "B"), each.reason])));
  table("tasks", [["task", "text"], ["steps"], ["rate"], ["overall"], ["", "text"], ["ms a step"], ["ranks"], ["", "text"]],
    now.tasks.length < 2 || now.benchmarks ? [] : now.tasks.map(row => [row.task, row.steps, text(row.rate), text(row.overall), row.unit, scaled(row.step, 1000), row.ranks, row.active ? "now" : ""]));
  table("ranks", [["rank", "text"], ["state", "text"], ["steps"], [own], ["ms a step"], ["loss"], ["attempt"], ["device", "text"], ["host", "text"], ["", "text why"]],
    now.ranks.map(row => [who(row), row.state, row.steps, text(row.rate), scaled(row.step, 1000), text(row.loss), row.attempt || "", row.device, row.host, row.notes.join("; ")]));
  table("devices", [["device", "text"], ["name", "text"], ["host", "text"], ["load"], ["mean of 10 s"], [named("memory", "B")], ["of"], [units.Cel[0]], [units.W[0]], ["ranks"], [own]],
    now.devices.map(row => [row.number, row.name, row.host, share(row.load), now.state === "ended" ? "" : share(row.mean_load), inUnit(row.memory, "B"), inUnit(row.memory_total, "B"),
      row.temperature, text(row.power), row.ranks.join(", "), row.unit === own ? text(row.rate) : ""]));
  table("hosts", [["host", "text"], ["processors"], ["memory"], [named("the program", "B")]], now.hosts.map(row => [row.host, share(row.cpu), share(row.memory), inUnit(row.rss, "B")]));
}
let shownReport = 0, reported = false;
function feed({now, series, trouble}) {
  document.title = `${now.name} · injector`;
  byId("name").textContent = now.name;
  byId("state").textContent = now.state;
  byId("state").className = `state ${now.state}`;
  byId("note").textContent = seconds(now.elapsed);
  byId("progress").hidden = !now.goal || now.state === "ended";
  if (now.goal) byId("progress").value = Math.min(now.steps / now.goal, 1);
  const notes = [...now.missing.map(each => `missing: ${each}`), ...now.notes, ...(trouble ? [trouble] : [])];
  byId("notes").hidden = !notes.length;
  byId("notes").replaceChildren(...notes.map(each => make("p", {}, each)));
  if (!reported) {
    tiles(now);
    parts(now.regions);
    rows(now);
  }
  overTime(data.loops?.length ? {...series, step: undefined} : series, now.unit); // its steps have a plot of their own
  const ends = Object.values(series).flatMap(lines => Object.values(lines)).map(line => line.at(-1)?.[0] ?? 0);
  grow(Math.max(now.elapsed, ...ends));
  frame();
}

// --- the report so far, and at last ------------------------------------------------------------------

const came = new Map(); // the markup of what stands in the page, as it came
const keyOf = node => node.id || node.className || node.tagName;
// What a reader looks at closely stays as it is, until they leave it.
function isInUse(node) {
  const chosen = getSelection(), marked = chosen && !chosen.isCollapsed && node.contains(chosen.anchorNode);
  return marked || node.matches(":focus-within") || node.querySelector(".plot:hover, .flame:hover, .flame.zoomed") !== null;
}
// What a reader has opened, sorted, searched and scrolled, done again.
function carry(before, after) {
  const pairs = selector => {
    const found = [...after.querySelectorAll(selector)];
    return [...before.querySelectorAll(selector)].map((each, at) => [each, found[at]]).filter(([, other]) => other);
  };
  for (const [old, made] of pairs("details")) made.open = old.open;
  for (const [old, made] of pairs("input[type=search]")) { made.value = old.value; made.dispatchEvent(new Event("input")); }
  for (const [old, made] of pairs("table.sortable")) {
    const heads = [...old.tHead.rows[0].cells], at = heads.findIndex(each => each.hasAttribute("aria-sort"));
    if (at >= 0 && made.tHead.rows[0].cells.length === heads.length) sorted(made, at, heads[at].getAttribute("aria-sort") === "descending");
  }
  for (const [old, made] of pairs(".scroll, .diff")) { made.scrollLeft = old.scrollLeft; made.scrollTop = old.scrollTop; }
}
// Puts markup in the place of what stands in `place`, but for what is the same.
function put(place, markup) {
  const holder = make("template");
  holder.innerHTML = markup;
  const standing = new Map([...place.children].map(each => [keyOf(each), each])), fresh = [];
  let next = place.firstElementChild;
  for (const made of [...holder.content.children]) {
    const key = keyOf(made), text = made.outerHTML, old = standing.get(key);
    standing.delete(key);
    const same = old && came.get(key) === text && !old.matches(".drawn");
    if (old && (same || isInUse(old))) {
      if (old === next) next = next.nextElementSibling;
      else place.insertBefore(old, next);
      continue;
    }
    came.set(key, text);
    if (old === next && old) next = next.nextElementSibling;
    if (old) old.replaceWith(made);
    else place.insertBefore(made, next);
    tables(made);
    if (old) fresh.push([old, made]);
  }
  for (const old of standing.values()) old.remove();
  return fresh;
}
async function report(over) {
  const answer = await fetch("report", {cache: "no-store"});
  if (!answer.ok) return false;
  const found = await answer.json();
  const renewed = Object.entries(found.parts).flatMap(([name, markup]) => put(byId(name), markup));
  data = found.data;
  if (data.loops) drawRun();
  if (data.scaling) drawSuite();
  for (const pair of renewed) carry(...pair);
  if (over) for (const each of document.querySelectorAll("#figures, #step, [id^=live-]")) each.remove();
  frame();
  show(...shown);
  return true;
}
async function turn() {
  let after = 1000;
  try {
    const found = await (await fetch("state", {cache: "no-store"})).json();
    if (found.now.name !== undefined) feed(found);
    if (found.report !== shownReport && await report(found.over)) {
      shownReport = found.report;
      reported = found.over;
    }
    if (found.over) after = 10000;
  } catch (error) {
    byId("note").textContent = "the watcher is gone";
    after = 5000;
  }
  setTimeout(turn, after);
}
turn();
