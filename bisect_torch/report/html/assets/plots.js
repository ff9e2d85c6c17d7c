// Error against build, one plot for each case. uPlot draws; here errors become heights on a logarithmic scale on which
// an exact zero and what is not finite have places of their own, below and above all others.

const MOST_LINES = 8;
const PLOTS_AT_ONCE = 6;
const FEW_PLOTS = 24; // up to here all are drawn at once: a picture or a print of the page has them; above, when in sight
const DASHES = [[], [8, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 4], [1, 5], [14, 3, 3, 3]];

class Plots {
  #made = new Set();
  #measured = null;

  constructor(results, section, list, more, open) {
    this.results = results;
    this.section = section;
    this.list = list;
    this.more = more;
    this.open = open;
    this.most = PLOTS_AT_ONCE;
    this.rows = [];
    this.observer = new IntersectionObserver((entries) => this.#enter(entries), { rootMargin: "200px" });
    this.resized = new ResizeObserver((entries) => {
      for (const { target, contentRect } of entries) {
        target.plot?.setSize({ width: Math.floor(contentRect.width), height: target.plot.height });
      }
    });
    more.addEventListener("click", () => {
      this.most += PLOTS_AT_ONCE;
      this.show(this.rows);
    });
  }

  /** Rows with an error anywhere. */
  get measured() {
    this.#measured ??= this.#measuredRows();
    return this.#measured;
  }

  #measuredRows() {
    const { rel_error: errors } = this.results.details.cells;
    const found = new Set();
    for (let row = 0, cell = 0; row < this.results.number; row += 1) {
      for (let build = 0; build < this.results.builds.length; build += 1, cell += 1) {
        if (errors.at(cell) !== null) found.add(row);
      }
    }
    return found;
  }

  /** Plots for the cases of these rows. */
  show(rows) {
    this.rows = rows;
    const byCase = new Map();
    for (const row of rows) {
      if (!this.measured.has(row)) continue;
      const number = this.results.caseOf.at(row);
      if (!byCase.has(number)) byCase.set(number, []);
      byCase.get(number).push(row);
    }
    this.section.hidden = byCase.size === 0;
    const shown = [...byCase].slice(0, this.most);
    this.list.replaceChildren(...shown.map(([number, of]) => this.figure(this.results.caseName(number), of)));
    this.dropUnseen();
    if (shown.length <= FEW_PLOTS) this.drawAll();
    this.more.hidden = byCase.size <= shown.length;
    this.more.textContent = `More plots (${byCase.size - shown.length})`;
  }

  /** Draw again, in the colours of now. */
  recolour() {
    for (const holder of this.#made) {
      holder.plot.destroy();
      holder.plot = this.#plot(holder);
    }
  }

  /** Draw those that have not come into sight yet. */
  drawAll() {
    for (const holder of this.list.querySelectorAll(".plot")) this.#draw(holder);
  }

  /** Let go of plots that have left the page. */
  dropUnseen() {
    for (const holder of this.#made) {
      if (holder.isConnected) continue;
      holder.plot.destroy();
      this.resized.unobserve(holder);
      this.#made.delete(holder);
    }
  }

  #enter(entries) {
    for (const { target, isIntersecting } of entries) if (isIntersecting) this.#draw(target);
  }

  #draw(holder) {
    if (holder.plot) return;
    holder.plot = this.#plot(holder);
    this.#made.add(holder);
    this.observer.unobserve(holder);
    this.resized.observe(holder);
  }

  /** A plot with title, what its lines are, and its numbers as a table. */
  figure(title, rows) {
    const lines = this.#lines(rows);
    const readout = element("p", { class: "readout faint", text: this.#summary(rows, lines) });
    const holder = element("div", { class: "plot", role: "img", "aria-label": `${title}: ${this.#summary(rows, lines)}` });
    Object.assign(holder, { lines, readout, rest: readout.textContent, tolerances: this.#tolerances(rows) });
    this.observer.observe(holder);
    const key = element("ul", { class: "key" });
    lines.forEach((line, place) => {
      const sample = element("span", { class: `sample s-${line.style}`, "aria-hidden": "true", text: line.sign });
      key.append(element("li", {}, sample, element("span", { text: line.label, title: line.label })));
    });
    if (lines.some((line) => line.points.some((point) => point?.bad))) {
      key.append(element("li", {}, element("span", { class: "sample wrong", "aria-hidden": "true", text: "●" }), "wrong"));
    }
    for (const each of holder.tolerances) {
      const sample = element("span", { class: "sample tolerance", "aria-hidden": "true", text: "tol" });
      key.append(element("li", {}, sample, `tolerance ${shownNumber(each)}`));
    }
    const numbers = element("details", {}, element("summary", { text: "As a table" }));
    numbers.addEventListener("toggle", () => {
      if (numbers.open && !numbers.querySelector("table")) numbers.append(this.#table(lines));
    });
    return element("figure", {}, element("figcaption", { text: title }), holder, readout, key, numbers);
  }

  #lines(rows) {
    const few = rows.length <= MOST_LINES;
    const lines = few
      ? rows.map((row, place) => ({ label: this.results.label(row), style: place, sign: `${place + 1}`, of: [row] }))
      : [{ label: `largest of ${plural(rows.length, "row")}`, style: 0, sign: "max", of: rows }];
    for (const line of lines) line.points = this.#points(line.of);
    return lines;
  }

  /** For each build the largest error of some rows, with the row; null where none has any. */
  #points(rows) {
    const { builds, marks } = this.results;
    const { cells } = this.results.details;
    return builds.map((_, build) => {
      let worst = null;
      for (const row of rows) {
        const cell = this.results.cell(row, build);
        const error = cells.rel_error.at(cell);
        if (error === null || (worst !== null && sortable(error) <= sortable(worst.error))) continue;
        worst = { row, build, error, bad: marks.verdict.at(cell) === "wrong" };
      }
      return worst;
    });
  }

  /** The tolerance, where all observations of these rows have one and the same. */
  #tolerances(rows) {
    const { tolerance } = this.results.details.observations;
    const found = new Set();
    for (const row of rows) {
      const [from] = this.results.observationsOf(this.results.cell(row, 0));
      const [, to] = this.results.observationsOf(this.results.cell(row, this.results.builds.length - 1));
      for (let place = from; place < to; place += 1) found.add(tolerance.at(place));
      if (found.size > 1) return [];
    }
    return [...found].filter((each) => each > 0);
  }

  #summary(rows, lines) {
    const points = lines.flatMap((line) => line.points).filter(Boolean);
    const worst = points.reduce((a, b) => (sortable(b.error) > sortable(a.error) ? b : a));
    const where = `${this.results.builds[worst.build].name}${rows.length > 1 ? `, ${this.results.label(worst.row)}` : ""}`;
    return `Largest: ${shownError(worst.error)} in ${where}.`;
  }

  #table(lines) {
    const head = element("tr", {}, element("th", { scope: "col", text: "build" }));
    for (const line of lines) head.append(element("th", { scope: "col", text: line.label }));
    const table = element("table", {}, element("thead", {}, head), element("tbody"));
    this.results.builds.forEach(({ name }, build) => {
      const line = element("tr", {}, element("th", { scope: "row", text: name }));
      for (const { points } of lines) {
        const point = points[build];
        const words = point === null ? "–" : shownError(point.error) + (point.bad ? " W" : "");
        line.append(element("td", { text: words }));
      }
      table.tBodies[0].append(line);
    });
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers" }, table);
  }

  #plot(holder) {
    const { lines, tolerances, readout, rest } = holder;
    const scale = heights(lines.flatMap((line) => line.points), tolerances);
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const { builds } = this.results;
    const y = (line, pick) => line.points.map((point) => (point && pick(point) ? scale.of(point.error) : null));
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(260, Math.floor(holder.clientWidth)),
      height: 220,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: false, range: [-0.5, builds.length - 0.5] }, y: { range: [scale.low, scale.high] } },
      axes: [
        {
          ...axis,
          size: 34,
          splits: () => places(builds.length, holder.clientWidth),
          values: (_, at) => at.map((place) => builds[place]?.head ?? ""),
        },
        { ...axis, size: 58, splits: () => scale.splits, values: (_, at) => at.map((height) => scale.label(height)) },
      ],
      series: [
        {},
        ...lines.map(({ style }) => ({
          stroke: colour(`--line-${style}`),
          width: 2,
          dash: DASHES[style],
          spanGaps: true,
          points: { show: true, size: 6, fill: colour("--surface") },
        })),
        ...lines.map(() => ({
          stroke: colour("--bad"),
          width: 0,
          paths: () => null,
          points: { show: true, size: 10, fill: colour("--bad"), stroke: colour("--bad") },
        })),
        ...tolerances.map(() => ({ stroke: colour("--faint"), width: 1, dash: [3, 3], points: { show: false } })),
      ],
      hooks: {
        setCursor: [
          (plot) => {
            const at = plot.cursor.idx;
            readout.textContent = at === null || at === undefined ? rest : this.#read(lines, at);
          },
        ],
      },
    };
    const x = builds.map((_, place) => place);
    const rows = [
      x,
      ...lines.map((line) => y(line, () => true)),
      ...lines.map((line) => y(line, (point) => point.bad)),
      ...tolerances.map((value) => x.map(() => scale.of(value))),
    ];
    holder.replaceChildren();
    const made = new uPlot(options, rows, holder);
    made.over.addEventListener("click", () => {
      const point = lines.map((line) => line.points[made.cursor.idx]).filter(Boolean)[0];
      if (point) this.open(point.row, point.build);
    });
    return made;
  }

  #read(lines, build) {
    const parts = lines
      .filter((line) => line.points[build])
      .map((line) => `${line.sign}: ${shownError(line.points[build].error)}${line.points[build].bad ? " wrong" : ""}`);
    return `${this.results.builds[build].name}: ${parts.join(", ") || "nothing measured"}`;
  }
}

/** An order that "inf" and "nan" have a place in. */
function sortable(error) {
  return typeof error === "number" ? error : Infinity;
}

/** The scale: decades of the errors, one more below for zero, one above for what is not finite. */
function heights(points, tolerances) {
  const errors = points.filter(Boolean).map((point) => point.error);
  const positive = [...errors.filter((each) => typeof each === "number" && each > 0), ...tolerances];
  const logs = positive.map(Math.log10);
  const low = logs.length ? Math.floor(Math.min(...logs)) : -1;
  const high = logs.length ? Math.max(Math.ceil(Math.max(...logs)), low + 1) : 0;
  const zero = errors.some((each) => each === 0);
  const infinite = errors.some((each) => typeof each !== "number");
  const step = Math.max(1, Math.ceil((high - low) / 5));
  const splits = [];
  for (let height = low; height <= high; height += step) splits.push(height);
  if (zero) splits.unshift(low - step);
  if (infinite) splits.push(high + step);
  return {
    low: (zero ? low - step : low) - 0.3 * step,
    high: (infinite ? high + step : high) + 0.3 * step,
    splits,
    of: (error) => (typeof error !== "number" ? high + step : error === 0 ? low - step : Math.log10(error)),
    label: (height) => (zero && height === low - step ? "0" : infinite && height === high + step ? "inf/nan" : `1e${height}`),
  };
}

/** Which builds have a name below the plot: as many as fit. */
function places(number, width) {
  const step = Math.max(1, Math.ceil((number * 48) / Math.max(1, width - 70)));
  return [...Array(number).keys()].filter((place) => place % step === 0);
}
