// The results in the page: columns of distinct values and codes, unpacked when first asked for.

class Column {
  #packed;
  #codes = null;

  constructor(packed) {
    this.values = packed.values;
    this.#packed = packed;
  }

  /** Code of each entry; null where all are the same. */
  get codes() {
    if (this.#codes === null && this.#packed.codes) {
      const text = atob(this.#packed.codes);
      const bytes = new Uint8Array(text.length);
      for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
      const width = this.#packed.bytes;
      if (width === 1) this.#codes = bytes;
      else {
        const view = new DataView(bytes.buffer);
        this.#codes = width === 2 ? new Uint16Array(bytes.length / 2) : new Uint32Array(bytes.length / 4);
        for (let place = 0; place < this.#codes.length; place += 1) {
          this.#codes[place] = width === 2 ? view.getUint16(2 * place, true) : view.getUint32(4 * place, true);
        }
      }
    }
    return this.#codes;
  }

  code(place) {
    return this.codes === null ? 0 : this.codes[place];
  }

  at(place) {
    return this.values[this.code(place)];
  }
}

const columnsOf = (packed) =>
  Object.fromEntries(Object.entries(packed).map(([name, each]) => [name, new Column(each)]));

class Results {
  #firsts = null;
  #details = null;
  #twice;

  constructor(data) {
    this.data = data;
    this.builds = data.builds;
    this.cases = data.cases;
    this.number = data.rows.number;
    this.instance = new Column(data.rows.instance);
    this.caseOf = new Column(data.rows.case);
    this.device = new Column(data.rows.device);
    this.parameters = data.rows.parameters.map((each) => ({ name: each.name, values: new Column(each.values) }));
    this.marks = columnsOf(data.cells);
    this.verdicts = new Map(data.verdicts.map((each) => [each.name, each]));
    const names = this.cases.map((each) => each.name);
    this.#twice = new Set(names.filter((name, place) => names.indexOf(name) !== place));
  }

  /** The larger part of the results, which stands at the end of the page and is read when first asked for. */
  get details() {
    if (this.#details === null) {
      const data = JSON.parse(byId("details-data").textContent);
      this.#details = {
        ...data,
        selects: new Column(data.selects),
        cells: columnsOf(data.cells),
        observations: columnsOf(data.observations),
      };
    }
    return this.#details;
  }

  cell(row, build) {
    return row * this.builds.length + build;
  }

  /** Places of a cell's observations: from, and up to but not including. */
  observationsOf(cell) {
    if (this.#firsts === null) {
      const total = this.number * this.builds.length;
      this.#firsts = new Uint32Array(total + 1);
      const { observations } = this.details.cells;
      for (let place = 0; place < total; place += 1) {
        this.#firsts[place + 1] = this.#firsts[place] + observations.at(place);
      }
    }
    return [this.#firsts[cell], this.#firsts[cell + 1]];
  }

  verdict(cell) {
    return this.verdicts.get(this.marks.verdict.at(cell));
  }

  /** What stands after the letter. */
  small(cell) {
    return this.marks.small.at(cell) || (this.marks.drift.at(cell) & 1 ? "≠" : "");
  }

  /** A cell in words, for who cannot see it. */
  words(cell) {
    const said = [this.verdict(cell).words];
    const small = this.marks.small.at(cell);
    if (small) said.push(this.data.small[small]);
    const drift = this.driftWords(cell);
    if (drift) said.push(drift);
    const edge = this.marks.edge.at(cell);
    if (edge) said.push(edge);
    return said.join(", ");
  }

  driftWords(cell) {
    const bits = this.marks.drift.at(cell);
    const which = ["output", "reference", "input"].filter((_, place) => bits & (1 << place));
    return which.length ? `${which.join(", ")} bits differ from the build before` : "";
  }

  /** Name of a row without its case: the values of its parameters. */
  label(row) {
    const device = this.device.values.length > 1 ? ` @${this.device.at(row)}` : "";
    const values = this.parameters.map(({ values: each }) => each.at(row)).filter((each) => each !== null);
    return (values.join(", ") || this.instance.at(row)) + device;
  }

  /** Names of the parameters that a row has. */
  parameterNames(row) {
    return this.parameters.filter(({ values }) => values.at(row) !== null).map(({ name }) => name);
  }

  /** Full name of a row, with its file where another file has a case of that name. */
  name(row) {
    const { file, name } = this.cases[this.caseOf.at(row)];
    const where = this.#twice.has(name) ? ` (${file})` : "";
    return this.instance.at(row) + where + (this.device.values.length > 1 ? ` @${this.device.at(row)}` : "");
  }

  /** A case, with its file where another file has a case of that name. */
  caseName(number) {
    const { file, name } = this.cases[number];
    return this.#twice.has(name) ? `${name} (${file})` : name;
  }
}
