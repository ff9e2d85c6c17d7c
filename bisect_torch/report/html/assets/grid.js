// The matrix: an ARIA grid that holds only the rows and columns in sight. The grid itself has the focus; which cell is
// the active one it says with aria-activedescendant, so that scrolling never takes the focus away.

const OVERSCAN = 6;
const MOST_PRINTED = 1500;
const MOST_MEASURED = 100;
const LEAST_LABEL = 0.25; // of the room: what is left for names where they give way to builds
const LEAST_CELL = 40; // CSS pixels: "2.10.0" as the head of a column

class Grid {
  #items = [];
  #shown = new Map();
  #columns = [0, 0];
  #frame = 0;
  #dimmed = null;

  /**
   * @param {HTMLElement} root
   * @param {Results} results
   * @param {Object} on `open(row, build, byKey)`, `move(row, build)`, `fold(case)`, `escape()`
   */
  constructor(root, results, on) {
    this.root = root;
    this.results = results;
    this.on = on;
    this.active = { item: 0, column: 0 };
    this.opened = null;
    this.head = element("div", { role: "row", class: "row head", "aria-rowindex": 1 });
    this.body = element("div", { role: "rowgroup", class: "body" });
    root.append(element("div", { role: "rowgroup", class: "heads" }, this.head), this.body);
    root.setAttribute("aria-colcount", results.builds.length + 1);
    root.addEventListener("scroll", () => this.#later(), { passive: true });
    root.addEventListener("keydown", (event) => this.#key(event));
    root.addEventListener("click", (event) => this.#click(event));
    const resized = new ResizeObserver(() => this.refresh());
    resized.observe(root);
    resized.observe(root.parentElement);
  }

  /** Show these items: `{case, rows, open}` for a heading, `{row, label}` for a row. */
  show(items, dimmed) {
    const kept = this.#items[this.active.item];
    this.#items = items;
    this.#dimmed = dimmed;
    const place = kept ? items.findIndex((each) => each.row === kept.row && each.case === kept.case) : 0;
    this.active.item = Math.max(0, Math.min(place < 0 ? this.active.item : place, items.length - 1));
    this.root.setAttribute("aria-rowcount", items.length + 1);
    this.refresh();
  }

  /** Draw everything anew. */
  refresh() {
    if (this.root.classList.contains("printing")) return;
    this.root.style.removeProperty("--cell");
    const style = getComputedStyle(this.root);
    this.height = parseFloat(style.getPropertyValue("--row")) || 28;
    this.width = parseFloat(style.getPropertyValue("--cell")) || 44;
    // Of the room that there is, not of the grid's own width, which follows from this.
    const inside = this.root.parentElement.clientWidth;
    const room = Math.max(120, inside * (narrow.matches ? 0.42 : 0.5));
    // Names give way where all builds are in sight then: the newest of them are what one looks for.
    const left = inside - this.#beside() - LEAST_CELL * this.results.builds.length;
    this.label = Math.min(this.#widestLabel(), left < inside * LEAST_LABEL ? room : Math.min(room, left));
    this.width = this.#fitting();
    this.root.style.setProperty("--cell", `${this.width}px`);
    this.root.style.setProperty("--label", `${this.label}px`);
    this.body.style.height = `${this.#items.length * this.height}px`;
    const total = `${this.label + this.width * this.results.builds.length}px`;
    this.body.style.width = total;
    this.head.style.width = total;
    this.body.replaceChildren();
    this.#shown.clear();
    this.#columns = [0, 0];
    this.#draw();
  }

  /** Make a cell the active one and bring it into sight. */
  go(item, column) {
    const last = { item: this.#items.length - 1, column: this.results.builds.length };
    if (last.item < 0) return;
    this.active = {
      item: Math.max(0, Math.min(item, last.item)),
      column: Math.max(0, Math.min(column, last.column)),
    };
    this.#reveal();
    this.#draw();
    const { row } = this.#items[this.active.item];
    if (row !== undefined && this.active.column > 0) this.on.move(row, this.active.column - 1);
  }

  /** Make the cell of a row and a build the active one, where it is shown. */
  goTo(row, build) {
    const place = this.#items.findIndex((each) => each.row === row);
    if (place >= 0) this.go(place, build + 1);
    return place >= 0;
  }

  /** Mark the cell whose details are shown; null for none. */
  mark(row, build) {
    this.opened = row === null ? null : { row, build };
    for (const shown of this.#shown.values()) this.#state(shown);
  }

  /** All rows as they are printed. Returns how many are left out. */
  print() {
    const items = this.#items.slice(0, MOST_PRINTED);
    this.root.classList.add("printing");
    this.head.replaceChildren(...this.#heads([0, this.results.builds.length]));
    this.body.replaceChildren(...items.map((item, place) => this.#row(item, place, [0, this.results.builds.length])));
    const page = 700; // CSS pixels between the margins of a page in portrait format
    this.root.style.setProperty("--print-zoom", Math.min(1, page / this.body.scrollWidth));
    return this.#items.length - items.length;
  }

  printed() {
    this.root.classList.remove("printing");
    this.refresh();
  }

  // --- drawing

  #later() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      if (!this.root.classList.contains("printing")) this.#draw();
    });
  }

  /** Width of the frame and, where there is one, of the scroll bar. */
  #beside() {
    return Math.max(2, this.root.offsetWidth - this.root.clientWidth);
  }

  /** Width of a cell: a little less than usual where all builds are in sight then, the newest among them. */
  #fitting() {
    const room = this.root.parentElement.clientWidth - this.#beside() - this.label;
    const each = Math.floor(room / this.results.builds.length);
    return each < this.width && each >= LEAST_CELL ? each : this.width;
  }

  /** Width of the longest label, in CSS pixels. */
  #widestLabel() {
    const texts = this.#items.map((item) => {
      if (item.case === undefined) return [400, `${item.label}${item.deep ? "xx" : ""}`];
      return [600, `${item.label} ${item.names.join(", ")} 100×xx`];
    });
    texts.sort(([, a], [, b]) => b.length - a.length); // that with the most characters need not be the widest
    const pen = document.createElement("canvas").getContext("2d");
    const { fontFamily } = getComputedStyle(document.body);
    const { fontSize } = getComputedStyle(this.root);
    const widths = texts.slice(0, MOST_MEASURED).map(([weight, text]) => {
      pen.font = `${weight} ${fontSize} ${fontFamily}`;
      return pen.measureText(text).width;
    });
    return Math.ceil(Math.max(0, ...widths)) + 32;
  }

  /** Columns and rows in sight, with some around them. */
  #window() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.root;
    const builds = this.results.builds.length;
    const from = Math.max(0, Math.floor(scrollLeft / this.width) - OVERSCAN);
    const to = Math.min(builds, Math.ceil((scrollLeft + clientWidth - this.label) / this.width) + OVERSCAN);
    const top = Math.max(0, Math.floor(scrollTop / this.height) - OVERSCAN);
    const bottom = Math.min(this.#items.length, Math.ceil((scrollTop + clientHeight) / this.height) + OVERSCAN);
    return { columns: builds <= 40 ? [0, builds] : [from, Math.max(from, to)], rows: [top, bottom] };
  }

  #draw() {
    const { columns, rows } = this.#window();
    if (columns[0] !== this.#columns[0] || columns[1] !== this.#columns[1]) {
      this.#columns = columns;
      this.#shown.clear();
      this.body.replaceChildren();
      this.head.replaceChildren(...this.#heads(columns));
    }
    for (const [place, shown] of this.#shown) {
      if (place < rows[0] || place >= rows[1]) {
        shown.line.remove();
        this.#shown.delete(place);
      }
    }
    const fresh = document.createDocumentFragment();
    for (let place = rows[0]; place < rows[1]; place += 1) {
      if (this.#shown.has(place)) continue;
      const item = this.#items[place];
      const line = this.#row(item, place, columns);
      line.style.transform = `translateY(${place * this.height}px)`;
      this.#shown.set(place, { line, item, place });
      fresh.append(line);
    }
    this.body.append(fresh);
    for (const shown of this.#shown.values()) this.#state(shown);
    const id = `cell-${this.active.item}-${this.active.column}`;
    if (byId(id)) this.root.setAttribute("aria-activedescendant", id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  #heads([from, to]) {
    const heads = [element("div", { role: "columnheader", class: "label", "aria-colindex": 1, text: "instance" })];
    heads.push(spacer(from * this.width));
    for (let build = from; build < to; build += 1) {
      const { name, head, day } = this.results.builds[build];
      const title = day ? `${name}, ${day}` : name;
      const attributes = { role: "columnheader", class: "build", "aria-colindex": build + 2, title, text: head };
      heads.push(element("div", attributes));
    }
    return heads;
  }

  #row(item, place, [from, to]) {
    const heading = item.case !== undefined;
    const line = element("div", { role: "row", class: heading ? "row case" : "row", "aria-rowindex": place + 2 });
    const label = element("div", {
      role: "rowheader",
      class: heading ? "label" : `label${item.deep ? " deep" : ""}`,
      "aria-colindex": 1,
      id: `cell-${place}-0`,
      "aria-expanded": heading ? String(item.open) : null,
      title: heading ? this.#caseTitle(item) : this.results.name(item.row),
    });
    if (heading) label.append(element("span", { class: "sign", "aria-hidden": "true", text: item.open ? "▾" : "▸" }));
    label.append(...(item.deep ? this.#values(item.label) : [element("span", { class: "name", text: item.label })]));
    if (heading && item.names.length) label.append(element("span", { class: "names", text: item.names.join(", ") }));
    if (heading) label.append(element("span", { class: "number", text: `${item.rows.length}×` }));
    line.append(label, spacer(from * this.width));
    for (let build = from; build < to; build += 1) {
      line.append(heading ? this.#summary(item, place, build) : this.#cell(item.row, place, build));
    }
    return line;
  }

  /** Values of parameters; where there is no room for all, the last one stays, which varies fastest. */
  #values(text) {
    const cut = text.lastIndexOf(", ");
    if (cut < 0) return [element("span", { class: "name", text })];
    return [
      element("span", { class: "name", text: text.slice(0, cut + 1) }),
      element("span", { class: "last", text: text.slice(cut + 2) }),
    ];
  }

  #caseTitle({ case: number, rows }) {
    const { file, name } = this.results.cases[number];
    return `${name} in ${file}, ${plural(rows.length, "row")}`;
  }

  #cell(row, place, build) {
    const cell = this.results.cell(row, build);
    const verdict = this.results.verdict(cell);
    const dim = this.#dimmed !== null && !this.#dimmed.has(verdict.name);
    const edge = this.results.marks.edge.at(cell) !== "";
    const made = element("div", {
      role: "gridcell",
      class: `cell v-${verdict.name}${dim ? " dim" : ""}${edge ? " edge" : ""}`,
      id: `cell-${place}-${build + 1}`,
      "aria-colindex": build + 2,
      "aria-label": `${this.results.builds[build].name}: ${this.results.words(cell)}`,
      text: verdict.letter,
    });
    const small = this.results.small(cell);
    if (small) made.append(element("small", { text: small }));
    return made;
  }

  /** Of a folded case: the letter that all its rows share, or the worst with the number of rows that have it. */
  #summary(item, place, build) {
    const attributes = { role: "gridcell", id: `cell-${place}-${build + 1}`, "aria-colindex": build + 2 };
    if (item.open) return element("div", { ...attributes, class: "cell blank", "aria-label": "unfolded" });
    const counts = new Map();
    let edge = false;
    for (const row of item.rows) {
      const cell = this.results.cell(row, build);
      const { name } = this.results.verdict(cell);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      edge ||= this.results.marks.edge.at(cell) !== "";
    }
    const worst = WORST_FIRST.find((name) => counts.has(name));
    const { letter, words } = this.results.verdicts.get(worst);
    const many = counts.get(worst);
    const mixed = counts.size > 1;
    const label = `${this.results.builds[build].name}: ${words} in ${many} of ${plural(item.rows.length, "row")}`;
    const look = `cell v-${worst}${mixed ? " mixed" : ""}${edge ? " edge" : ""}`;
    const made = element("div", { ...attributes, class: look, "aria-label": label, title: label, text: letter });
    if (mixed) made.append(element("small", { text: many > 999 ? "…" : many }));
    return made;
  }

  #state({ line, item, place }) {
    line.querySelector(".active")?.classList.remove("active");
    line.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    if (place === this.active.item) byId(`cell-${place}-${this.active.column}`)?.classList.add("active");
    if (this.opened && item.row === this.opened.row) {
      byId(`cell-${place}-${this.opened.build + 1}`)?.setAttribute("aria-selected", "true");
    }
  }

  #reveal() {
    const { item, column } = this.active;
    const { root } = this;
    const headHeight = this.head.offsetHeight;
    const top = item * this.height;
    const seen = root.clientHeight - headHeight;
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top + this.height > root.scrollTop + seen) root.scrollTop = top + this.height - seen;
    if (column === 0) return;
    const left = (column - 1) * this.width;
    const room = root.clientWidth - this.label;
    if (left < root.scrollLeft) root.scrollLeft = left;
    else if (left + this.width > root.scrollLeft + room) root.scrollLeft = left + this.width - room;
  }

  // --- input

  #key(event) {
    if (event.altKey || event.metaKey) return;
    const { item, column } = this.active;
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 2);
    const last = this.#items.length - 1;
    const far = event.ctrlKey;
    const moves = {
      ArrowUp: [item - 1, column],
      ArrowDown: [item + 1, column],
      ArrowLeft: [item, column - 1],
      ArrowRight: [item, column + 1],
      PageUp: [item - page, column],
      PageDown: [item + page, column],
      Home: [far ? 0 : item, 0],
      End: [far ? last : item, this.results.builds.length],
    };
    if (event.key in moves) {
      event.preventDefault();
      if (this.#foldByArrow(event.key)) return;
      this.go(...moves[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#act(item, column, true);
    } else if (event.key === "Escape") {
      this.on.escape();
    }
  }

  /** On the name of a case, right unfolds and left folds. */
  #foldByArrow(key) {
    const item = this.#items[this.active.item];
    if (item?.case === undefined || this.active.column !== 0) return false;
    if ((key === "ArrowRight" && !item.open) || (key === "ArrowLeft" && item.open)) {
      this.on.fold(item.case);
      return true;
    }
    return false;
  }

  #click(event) {
    const id = event.target.closest("[id^=cell-]")?.id;
    if (!id) return;
    const [, item, column] = id.split("-").map(Number);
    this.go(item, column);
    this.root.focus({ preventScroll: true });
    this.#act(item, column, false);
  }

  #act(item, column, byKey) {
    const chosen = this.#items[item];
    if (!chosen) return;
    if (chosen.case !== undefined) this.on.fold(chosen.case);
    else this.on.open(chosen.row, Math.max(0, column - 1), byKey);
  }
}

/** Which verdict stands for a folded case. */
const WORST_FIRST = [
  "wrong", "crash", "timeout", "oom", "error", "absent", "undecidable", "broken", "uninstallable", "infra", "skip",
  "not-run", "ok",
];

function spacer(width) {
  const made = element("div", { class: "spacer", role: "presentation" });
  made.style.width = `${width}px`;
  return made;
}
