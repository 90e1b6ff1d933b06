
// --- how benchmarks scale ------------------------------------------------------------------------------

function speedups(family, number) {
  const {devices, speedup} = family, ideal = devices.map(each => each / devices[0]);
  plot(document.getElementById(`speedup${number}`), `speedup over ${family.over}`, devices,
    [{name: "measured", values: speedup}, {name: "ideal", values: ideal, stroke: () => color("--soft"), variable: "--soft", line: {dash: [6, 5], width: 1, points: {show: false}}}],
    value => `${figure(value)} ×`, {height: 240, least: 0, sayX: String, splits: devices});
}
function drawSuite() {
  data.scaling.forEach((family, number) => { if (document.querySelector(`#speedup${number}:empty`)) speedups(family, number); });
}
