
// --- a page that stays as it is ----------------------------------------------------------------------

if (data.loops) drawRun();
if (data.scaling) drawSuite();
overTime(Object.fromEntries(Object.entries(data.series).filter(([key]) => key !== "step")), data.unit);
tables(document);
frame();
show(...whole);
root.dataset.drawn = "";
