// Filters: within one, any chosen value fits; all filters together must fit. The number beside a value is that of the
// rows that it would leave, given all other filters.

const MANY_VALUES = 12;
const MOST_VALUES = 60;

/** One filter: which of its values a row has. */
class Facet {
  /**
   * @param {string} title
   * @param {string[]} values
   * @param {function(number): number[]} has row to places of its values
   */
  constructor(title, values, has, chip = null) {
    this.title = title;
    this.values = values;
    this.has = has;
    this.chip = chip;
    this.chosen = new Set();
    this.counts = new Uint32Array(values.length);
  }

  fits(row) {
    return this.chosen.size === 0 || this.has(row).some((place) => this.chosen.has(place));
  }
}

const MARKS = ["transition", "flaky", "output bits differ", "reference or input bits differ", "another message or signal"];

class Facets {
  constructor(results, onChange) {
    this.results = results;
    this.onChange = onChange;
    this.text = "";
    this.only = null; // rows of a finding
    this.verdictNames = results.data.verdicts.map((each) => each.name);
    const seen = this.#scan();
    this.facets = [
      this.#verdictFacet(seen),
      new Facet("marks", MARKS, (row) => bitsOf(seen.marks[row])),
      new Facet("case", results.cases.map((_, place) => results.caseName(place)), (row) => [results.caseOf.at(row)]),
      new Facet("device", results.device.values, (row) => [results.device.code(row)]),
      ...results.parameters.map(({ name, values }) => parameterFacet(name, values)),
    ].filter((each) => each.values.length > 1);
  }

  get active() {
    return this.facets.filter((each) => each.chosen.size > 0).length + (this.text ? 1 : 0) + (this.only ? 1 : 0);
  }

  /** Names of the chosen verdicts; null for all. */
  get verdicts() {
    const { chosen } = this.facets.find((each) => each.chip) ?? { chosen: new Set() };
    return chosen.size ? new Set([...chosen].map((place) => this.verdictNames[place])) : null;
  }

  /** Rows that fit; sets the numbers beside the values. */
  rows() {
    const fitting = [];
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const facet of this.facets) facet.counts.fill(0);
    for (let row = 0; row < this.results.number; row += 1) {
      if (this.only && !this.only.has(row)) continue;
      if (words.length) {
        const name = `${this.results.caseName(this.results.caseOf.at(row))} ${this.results.name(row)}`.toLowerCase();
        if (!words.every((word) => name.includes(word))) continue;
      }
      const failing = this.facets.filter((each) => !each.fits(row));
      if (failing.length === 0) fitting.push(row);
      for (const facet of failing.length === 0 ? this.facets : failing.length === 1 ? failing : []) {
        for (const place of facet.has(row)) facet.counts[place] += 1;
      }
    }
    return fitting;
  }

  clear() {
    for (const facet of this.facets) facet.chosen.clear();
    this.text = "";
    this.only = null;
  }

  /** Which verdicts and marks each row has, as bits. */
  #scan() {
    const { results } = this;
    const { verdict, small, drift, edge } = results.marks;
    const place = new Map(this.verdictNames.map((name, number) => [name, number]));
    const verdictBit = verdict.values.map((name) => 1 << place.get(name));
    const smallBit = small.values.map((sign) => (sign === "~" ? 2 : sign ? 16 : 0));
    const driftBit = drift.values.map((bits) => (bits & 1 ? 4 : 0) | (bits & 6 ? 8 : 0));
    const edgeBit = edge.values.map((kind) => (kind ? 1 : 0));
    const found = { verdicts: new Uint32Array(results.number), marks: new Uint32Array(results.number) };
    for (let row = 0, cell = 0; row < results.number; row += 1) {
      for (let build = 0; build < results.builds.length; build += 1, cell += 1) {
        found.verdicts[row] |= verdictBit[verdict.code(cell)];
        found.marks[row] |=
          smallBit[small.code(cell)] | driftBit[drift.code(cell)] | edgeBit[edge.code(cell)];
      }
    }
    return found;
  }

  #verdictFacet(seen) {
    const { verdicts } = this.results.data;
    return new Facet(
      "verdict",
      verdicts.map((each) => each.words),
      (row) => bitsOf(seen.verdicts[row]),
      (place) => verdicts[place],
    );
  }

  // --- the form

  /** Build the form. */
  mount(form) {
    this.form = form;
    const search = element("input", { type: "search", placeholder: "any part of a name", "aria-label": "Search names" });
    search.addEventListener("input", () => {
      this.text = search.value;
      this.onChange();
    });
    this.search = search;
    form.append(element("fieldset", {}, element("legend", { text: "name" }), search));
    for (const facet of this.facets) form.append(this.#fieldset(facet));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  #fieldset(facet) {
    const made = element("fieldset", {}, element("legend", { text: facet.title }));
    facet.list = element("div", { class: "values" });
    facet.set = made;
    facet.find = "";
    if (facet.values.length > MANY_VALUES && !facet.chip) {
      const find = element("input", {
        type: "search",
        placeholder: `find among ${count(facet.values.length)}`,
        "aria-label": `Find a value of ${facet.title}`,
      });
      find.addEventListener("input", () => {
        facet.find = find.value.toLowerCase();
        this.#fill(facet);
      });
      made.append(find);
    }
    made.append(facet.list);
    return made;
  }

  /** Write the numbers and the ticks. Values that no row has are left out, unless they are chosen. */
  update() {
    if (this.search.value !== this.text) this.search.value = this.text;
    for (const facet of this.facets) this.#fill(facet);
  }

  #fill(facet) {
    const places = [...facet.values.keys()].filter(
      (place) =>
        facet.chosen.has(place) ||
        (facet.counts[place] > 0 && (!facet.find || facet.values[place].toLowerCase().includes(facet.find))),
    );
    facet.set.hidden = places.length === 0 && !facet.find;
    const focused = facet.list.contains(document.activeElement) ? document.activeElement.value : null;
    facet.list.replaceChildren(...places.slice(0, MOST_VALUES).map((place) => this.#value(facet, place)));
    if (places.length > MOST_VALUES) {
      const more = `and ${count(places.length - MOST_VALUES)} more: find them by name`;
      facet.list.append(element("p", { class: "faint", text: more }));
    }
    if (focused !== null) facet.list.querySelector(`input[value="${focused}"]`)?.focus();
  }

  #value(facet, place) {
    const box = element("input", { type: "checkbox", value: place });
    box.checked = facet.chosen.has(place);
    box.addEventListener("change", () => {
      if (box.checked) facet.chosen.add(place);
      else facet.chosen.delete(place);
      this.onChange();
    });
    const label = element("label", {}, box);
    const verdict = facet.chip?.(place);
    if (verdict) label.append(element("span", { class: `cell v-${verdict.name}`, "aria-hidden": "true", text: verdict.letter }));
    label.append(
      element("span", { class: "value", text: facet.values[place] || "(empty)" }),
      element("span", { class: "number", text: plural(facet.counts[place], "row") }),
    );
    return label;
  }
}

/** Values of a parameter among the rows that have it; numbers in their order. */
function parameterFacet(name, values) {
  const known = [...values.values.entries()].filter(([, value]) => value !== null);
  const numeric = known.every(([, value]) => value !== "" && Number.isFinite(Number(value)));
  if (numeric) known.sort(([, a], [, b]) => Number(a) - Number(b));
  const place = new Map(known.map(([code], number) => [code, number]));
  const has = values.values.map((_, code) => (place.has(code) ? [place.get(code)] : []));
  return new Facet(name, known.map(([, value]) => value), (row) => has[values.code(row)]);
}

const BITS = new Map();

function bitsOf(mask) {
  if (!BITS.has(mask)) {
    BITS.set(mask, [...Array(32).keys()].filter((place) => mask & (1 << place)));
  }
  return BITS.get(mask);
}
