// Puts the page together.

const FEW_ROWS = 250; // above, cases begin folded

const results = new Results(JSON.parse(byId("matrix-data").textContent));
const folded = new Map(results.cases.map((_, number) => [number, false]));
const facets = new Facets(results, update);
const plots = new Plots(results, byId("plots-section"), byId("plots"), byId("more-plots"), (row, build) => openCell(row, build, true));
const grid = new Grid(byId("grid"), results, {
  open: openCell,
  move: (row, build) => detail.isOpen && !narrow.matches && openCell(row, build, false),
  fold: (number) => {
    folded.set(number, !folded.get(number));
    drawRows();
  },
  escape: closeCell,
});
const detail = new Detail(byId("detail"), results, plots, {
  close: closeCell,
  go: (row, build) => {
    grid.goTo(row, build);
    openCell(row, build, true);
  },
});
let fitting = [];
let loaded = false; // the details of the cells have come in

// --- rows

/** After a change of the filters. */
function update() {
  fitting = facets.rows();
  facets.update();
  drawRows();
  if (loaded) plots.show(fitting);
}

function drawRows() {
  const byCase = new Map();
  for (const row of fitting) {
    const number = results.caseOf.at(row);
    if (!byCase.has(number)) byCase.set(number, []);
    byCase.get(number).push(row);
  }
  const items = [];
  for (const [number, rows] of byCase) {
    const single = rows.length === 1;
    const open = !folded.get(number);
    if (single) items.push({ row: rows[0], label: results.name(rows[0]) });
    else {
      items.push({ case: number, rows, open, label: results.caseName(number), names: results.parameterNames(rows[0]) });
      if (open) for (const row of rows) items.push({ row, label: results.label(row), deep: true });
    }
  }
  grid.show(items, facets.verdicts);
  showStatus(byCase.size);
}

function showStatus(cases) {
  const all = results.number;
  const of = fitting.length === all ? plural(all, "row") : `${count(fitting.length)} of ${plural(all, "row")}`;
  byId("status").textContent = `${of} in ${plural(cases, "case")}`;
  byId("clear").hidden = facets.active === 0;
  for (const id of ["fold", "unfold", "mixed-key"]) byId(id).hidden = fitting.length === cases;
  byId("nothing").hidden = fitting.length > 0;
  byId("grid").hidden = fitting.length === 0;
  byId("filter-number").textContent = facets.active ? `(${facets.active} active)` : "";
}

function foldAll(fold) {
  for (const number of folded.keys()) folded.set(number, fold);
  drawRows();
}

/** Long matrices begin folded; in shorter ones only cases that are ok throughout, to the bit, do. */
function foldAtFirst() {
  const many = results.number > FEW_ROWS;
  const telling = new Set();
  for (let row = 0, cell = 0; row < results.number; row += 1) {
    for (let build = 0; build < results.builds.length; build += 1, cell += 1) {
      if (results.marks.verdict.at(cell) !== "ok" || results.small(cell)) telling.add(results.caseOf.at(row));
    }
  }
  for (const number of folded.keys()) folded.set(number, many || (!telling.has(number) && results.number > 20));
}

// --- one cell

function openCell(row, build, focus) {
  if (!loaded) return;
  inPlace(() => {
    detail.show(row, build, focus);
    document.body.classList.add("with-detail");
  });
  byId("main").inert = narrow.matches;
  grid.mark(row, build);
}

/** Do what makes the page narrower or wider, and leave the matrix where it was on the screen. */
function inPlace(change) {
  const before = byId("grid").getBoundingClientRect().top;
  change();
  window.scrollBy(0, byId("grid").getBoundingClientRect().top - before);
}

function closeCell() {
  if (!detail.isOpen) return;
  inPlace(() => {
    detail.close();
    document.body.classList.remove("with-detail");
  });
  byId("main").inert = false;
  grid.mark(null);
  byId("grid").focus({ preventScroll: true });
}

// --- findings

function showFinding(number) {
  const { rows, build } = results.data.findings[number];
  facets.clear();
  facets.only = new Set(rows);
  for (const row of rows) folded.set(results.caseOf.at(row), false);
  update();
  grid.goTo(rows[0], build);
  byId("grid").scrollIntoView({ block: "center" });
  byId("grid").focus({ preventScroll: true });
}

function mountFindings() {
  for (const each of document.querySelectorAll("[data-show]")) {
    const number = Number(each.dataset.show);
    each.hidden = results.data.findings[number].rows.length === 0;
    each.addEventListener("click", () => showFinding(number));
  }
  const more = byId("more-findings");
  if (more === null) return;
  const all = more.textContent;
  more.hidden = false;
  more.addEventListener("click", () => {
    const folds = byId("findings").classList.toggle("folded");
    more.textContent = folds ? all : "Show fewer";
    more.setAttribute("aria-expanded", String(!folds));
  });
}

// --- the page

function mountLegend() {
  const seen = new Set(results.marks.verdict.values);
  for (const { name, letter, words } of results.data.verdicts) {
    if (!seen.has(name)) continue;
    const chip = element("span", { class: `cell v-${name}`, text: letter });
    byId("legend").append(element("li", {}, chip, ` ${words}`));
  }
}

function mountTheme() {
  const themes = ["system", "light", "dark"];
  const switcher = byId("theme");
  let now = 0;
  switcher.addEventListener("click", () => {
    now = (now + 1) % themes.length;
    setTheme(themes[now]);
    switcher.textContent = `Theme: ${themes[now]}`;
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.recolour());
}

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  plots.recolour();
}

/** Paper is light, has all rows, and shows every finding with its evidence. */
function mountPrinting() {
  let before = null;
  const start = () => {
    if (before !== null) return;
    before = document.documentElement.dataset.theme ?? "system";
    setTheme("light");
    plots.drawAll();
    const left = grid.print();
    byId("status").dataset.left = left ? `; the first ${plural(fitting.length - left, "row")} are printed` : "";
  };
  const end = () => {
    if (before === null) return;
    setTheme(before);
    before = null;
    grid.printed();
  };
  window.addEventListener("beforeprint", start);
  window.addEventListener("afterprint", end);
  window.matchMedia("print").addEventListener("change", (event) => (event.matches ? start() : end()));
}

byId("filters").open = !narrow.matches;
byId("clear").addEventListener("click", () => {
  facets.clear();
  update();
});
byId("unfold").addEventListener("click", () => foldAll(false));
byId("fold").addEventListener("click", () => foldAll(true));
narrow.addEventListener("change", () => {
  byId("filters").open = !narrow.matches;
  byId("main").inert = narrow.matches && detail.isOpen;
});
facets.mount(byId("facets"));
foldAtFirst();
mountFindings();
mountLegend();
mountTheme();
mountPrinting();
update();
document.addEventListener("DOMContentLoaded", () => {
  loaded = true;
  // Let the matrix be painted first.
  requestAnimationFrame(() => setTimeout(() => plots.show(fitting)));
});
