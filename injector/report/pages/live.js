
// --- a page that is fed while what it is about goes on ------------------------------------------------

const byId = name => document.getElementById(name);
const scaled = (value, by) => value == null ? "" : text(value * by);
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
    const content = String(row[at] ?? ""), made = make(tag === "th" && !content ? "td" : tag, {class: kind}, content);
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
  if (!ended) add(now.position, "");
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
  table("benchmarks", [["benchmark", "text"], ["state", "text"], ["rate"], ["", "text"], ["jobs"], ["of"], ["", "text why"]],
    benchmarks.map(row => [row.name, row.state, text(row.rate), row.rate == null ? "" : row.unit, row.done, row.jobs, row.reason]));
  table("processes", [["process", "text"], ["devices", "text"], ["state", "text"], ["steps"], ["of"], ["rate"], ["", "text"], ["ms a step"], ["loss"], ["ranks"], ["GB"], ["", "text why"]],
    benchmarks.flatMap(row => row.state === "queued" ? [] : row.processes.map(each => [each.key, each.devices.join(", "), each.state, each.steps || "", each.goal, text(each.rate),
      each.rate == null ? "" : each.unit, scaled(each.step, 1000), text(each.loss), each.ranks > 1 ? each.ranks : "", scaled(each.rss, 1e-9), each.reason])));
  table("tasks", [["task", "text"], ["steps"], ["rate"], ["overall"], ["", "text"], ["ms a step"], ["ranks"], ["", "text"]],
    now.tasks.length < 2 || now.benchmarks ? [] : now.tasks.map(row => [row.task, row.steps, text(row.rate), text(row.overall), row.unit, scaled(row.step, 1000), row.ranks, row.active ? "now" : ""]));
  table("ranks", [["rank", "text"], ["state", "text"], ["steps"], [own], ["ms a step"], ["loss"], ["attempt"], ["device", "text"], ["host", "text"], ["", "text why"]],
    now.ranks.map(row => [who(row), row.state, row.steps, text(row.rate), scaled(row.step, 1000), text(row.loss), row.attempt || "", row.device, row.host, row.notes.join("; ")]));
  table("devices", [["device", "text"], ["name", "text"], ["host", "text"], ["load"], ["mean of 10 s"], ["memory GB"], ["of"], ["°C"], ["W"], ["ranks"], [own]],
    now.devices.map(row => [row.number, row.name, row.host, share(row.load), now.state === "ended" ? "" : share(row.mean_load), scaled(row.memory, 1e-9), scaled(row.memory_total, 1e-9),
      row.temperature, text(row.power), row.ranks.join(", "), row.unit === own ? text(row.rate) : ""]));
  table("hosts", [["host", "text"], ["processors"], ["memory"], ["the program, GB"]], now.hosts.map(row => [row.host, share(row.cpu), share(row.memory), scaled(row.rss, 1e-9)]));
}
let reported = false;
function feed({now, series}) {
  document.title = `${now.name} · injector`;
  byId("name").textContent = now.name;
  byId("state").textContent = now.state;
  byId("state").className = `state ${now.state}`;
  byId("said").textContent = seconds(now.elapsed);
  byId("progress").hidden = !now.goal || now.state === "ended";
  if (now.goal) byId("progress").value = Math.min(now.steps / now.goal, 1);
  const notes = [...now.missing.map(each => `missing: ${each}`), ...now.notes];
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
// The report of what is over stands in the place of what went on.
async function ended() {
  const answer = await fetch("report", {cache: "no-store"});
  if (!answer.ok) return false;
  const found = await answer.json();
  for (const [name, markup] of Object.entries(found.parts)) byId(name).innerHTML = markup;
  data = found.data;
  if (data.loops) drawRun(document);
  if (data.scaling) drawSuite();
  tables(document);
  for (const each of document.querySelectorAll("#figures, #step, [id^=live-]")) each.remove();
  frame();
  show(...shown);
  return true;
}
async function turn() {
  let after = 1000;
  try {
    const found = await (await fetch("state", {cache: "no-store"})).json();
    if (found.now.name !== undefined) feed(found);
    if (found.over) {
      after = 10000;
      reported = reported || await ended();
    }
  } catch (error) {
    byId("said").textContent = "the watcher is gone";
    after = 5000;
  }
  setTimeout(turn, after);
}
turn();
