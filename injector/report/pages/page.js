
// --- a page that stays as it is ----------------------------------------------------------------------

drawRun(document);
overTime(Object.fromEntries(Object.entries(data.series).filter(([key]) => key !== "step")));
tables(document);
frame();
show(...whole);
root.dataset.drawn = "";
