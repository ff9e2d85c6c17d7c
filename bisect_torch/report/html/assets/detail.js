// One cell: what it means, how to run it again, its observations, its environment, and the code that ran.

class Detail {
  /**
   * @param {HTMLElement} root
   * @param {Results} results
   * @param {Plots} plots
   * @param {Object} on `close()`, `go(row, build)`
   */
  constructor(root, results, plots, on) {
    this.root = root;
    this.results = results;
    this.plots = plots;
    this.on = on;
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        on.close();
      }
    });
  }

  get isOpen() {
    return !this.root.hidden;
  }

  close() {
    this.root.hidden = true;
    this.root.replaceChildren();
    this.plots.dropUnseen();
  }

  show(row, build, focus) {
    const { results } = this;
    const cell = results.cell(row, build);
    const [from, to] = results.observationsOf(cell);
    this.root.hidden = false;
    this.root.replaceChildren(
      this.#head(row, build),
      ...[
        this.#meaning(row, cell),
        from < to ? this.#rerun(row, build, from) : null,
        ...this.#observations(from, to),
        this.#plot(row),
        this.#environment(build, from, to),
        ...this.#sources(from, to),
      ].filter(Boolean),
    );
    this.plots.dropUnseen();
    this.root.scrollTop = 0;
    if (focus) byId("detail-title").focus();
  }

  #head(row, build) {
    const { results } = this;
    const last = results.builds.length - 1;
    const step = (by, text, name) => {
      const made = button(text, () => this.on.go(row, build + by), { "aria-label": name });
      made.disabled = build + by < 0 || build + by > last;
      return made;
    };
    return element(
      "div",
      { class: "detail-head" },
      element("h2", { id: "detail-title", tabindex: "-1", text: `${results.name(row)} on ${results.builds[build].name}` }),
      element(
        "div",
        { class: "buttons" },
        step(-1, "←", "Build before"),
        step(1, "→", "Build after"),
        button("Close", () => this.on.close()),
      ),
    );
  }

  #meaning(row, cell) {
    const { results } = this;
    const { marks } = results;
    const { cells } = results.details;
    const verdict = results.verdict(cell);
    const signature = cells.signature.at(cell);
    const lines = [
      ["file", results.cases[results.caseOf.at(row)].file],
      ["signature", signature && signature !== verdict.name ? signature : null],
      ["detail", cells.detail.at(cell)],
      ["reason", cells.reason.at(cell)],
      ["mark", results.data.small[marks.small.at(cell)]],
      ["bits", results.driftWords(cell)],
      ["transition", marks.edge.at(cell)],
      ["repeats", cells.counts.at(cell)],
      ["in forks", cells.in_forks.at(cell)],
      ["error", cells.rel_error.at(cell) === null ? null : `${shownError(cells.rel_error.at(cell))} (relative, largest)`],
    ].filter(([, value]) => value);
    const chip = element("span", { class: `cell v-${verdict.name}`, "aria-hidden": "true", text: verdict.letter });
    return element("div", { class: "meaning" }, element("p", {}, chip, element("b", { text: verdict.words })), facts(lines));
  }

  // --- run it again

  #rerun(row, build, observation) {
    const [head, tail] = this.results.details.observations.rerun.at(observation).split("\n");
    const select = tail ? "" : this.results.details.selects.at(row);
    const line = [head, this.results.builds[build].rerun, select, "--fresh -o again.parquet", tail].filter(Boolean).join(" ");
    const code = element("pre", { class: "command", tabindex: "0", role: "region", "aria-label": "Command" });
    // A line may end between words, not after the hyphens of an option.
    for (const word of line.split(" ")) code.append(element("span", { text: word }), " ");
    const copy = button("Copy", async () => {
      try {
        await navigator.clipboard.writeText(line);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        copy.textContent = "Selected";
      }
    });
    return section("Run it again", code, copy);
  }

  // --- observations

  #observations(from, to) {
    const made = [];
    for (let place = from; place < to; place += 1) made.push(this.#observation(place, place === from));
    if (made.length === 0) made.push(section("Observations", element("p", { text: "This cell was not run." })));
    return made;
  }

  #observation(place, first) {
    const at = (name) => this.results.details.observations[name].at(place);
    const words = [at("outcome"), at("isolation"), at("elapsed_s") === null ? null : shownSeconds(at("elapsed_s"))];
    const title = `Repeat ${at("repeat")}: ${words.filter(Boolean).join(", ")}`;
    const body = this.results.details.sections.flatMap(({ title: heading, columns }) =>
      heading === "texts" ? this.#texts(at, columns) : [this.#facts(heading, at, columns)],
    );
    const made = element("details", { class: "observation" }, element("summary", { text: title }), ...body.filter(Boolean));
    made.open = first;
    return made;
  }

  #facts(heading, at, columns) {
    const lines = [];
    for (const name of columns) {
      const value = at(name);
      const twice = name.startsWith("root_") && value === at(name === "root_type" ? "error_type" : "message");
      if (EMPTY.has(value) || twice || (name === "checks" && !value)) continue;
      lines.push([name, this.#value(name, value)]);
    }
    if (lines.length === 0) return null;
    const list = facts(lines, (name) => this.results.details.columns[name]?.[0]);
    if (heading === "how it ended" || heading === "values") return list;
    return element("details", {}, element("summary", { text: heading }), list);
  }

  #value(name, value) {
    const unit = this.results.details.columns[name]?.[1];
    if (name === "git_commit") return link(`https://github.com/pytorch/pytorch/commit/${value}`, value.slice(0, 12));
    if (name === "issue") return link(value);
    if (unit === "s" && typeof value === "number") return shownSeconds(value);
    if (unit === "bytes") return shownBytes(value);
    return typeof value === "number" ? shownNumber(value) : String(value);
  }

  #texts(at, columns) {
    return columns
      .filter((name) => !EMPTY.has(at(name)))
      .map((name) => {
        const label = TEXT_NAMES[name];
        const text = inLines(name, at(name));
        const block = element("pre", { tabindex: "0", role: "region", "aria-label": label, text });
        const made = element("details", { class: "text" }, element("summary", { text: label }), block);
        made.open = name === "traceback" || name === "stack" || text.length < 400;
        return made;
      });
  }

  // --- around it

  #plot(row) {
    if (!this.plots.measured.has(row)) return null;
    const number = this.results.caseOf.at(row);
    const rows = [];
    for (let other = 0; other < this.results.number; other += 1) {
      if (this.results.caseOf.at(other) === number && this.plots.measured.has(other)) rows.push(other);
    }
    const shown = rows.length <= MOST_LINES ? rows : [row];
    return section("Error by build", this.plots.figure(this.results.caseName(number), shown));
  }

  #environment(build, from, to) {
    const { results } = this;
    const each = results.builds[build];
    const run = from < to ? results.details.runs[results.details.observations.run_id.at(from)] ?? {} : {};
    const commit = each.commit && /^[0-9a-f]{7,40}$/.test(each.commit) && each.public
      ? link(`https://github.com/pytorch/pytorch/commit/${each.commit}`, each.commit)
      : each.commit;
    const lines = [
      ["torch", each.torch ?? each.name],
      ["commit", commit],
      ["published", each.day],
      ["Python", each.python],
      ["CUDA", each.cuda],
      ["backend", each.backend],
      ["lock", each.lock && `SHA-256 ${each.lock}`],
      ["machine", run.machine],
      ["cores", run.cores],
      ["run", run.started && `${run.started} by ${run.tool}`],
    ].filter(([, value]) => value);
    const made = section("Environment", facts(lines));
    const packages = results.details.packages[each.name];
    if (packages) {
      const list = element("ul", { class: "packages" }, ...packages.map((text) => element("li", { text })));
      made.append(element("details", {}, element("summary", { text: plural(packages.length, "package") }), list));
    }
    return made;
  }

  #sources(from, to) {
    const { observations, sources } = this.results.details;
    const wanted = new Map();
    for (let place = from; place < to; place += 1) {
      wanted.set(observations.case_file_hash.at(place), "The code that ran");
      for (const [name, hash] of observations.modules.at(place)) wanted.set(hash, name);
    }
    return [...wanted]
      .filter(([hash]) => sources[hash] !== undefined)
      .map(([hash, name]) => {
        const code = element("pre", { tabindex: "0", role: "region", "aria-label": name, text: sources[hash] });
        return element("details", { class: "text" }, element("summary", { text: name }), code);
      });
  }
}

const EMPTY = new Set([null, "", "[]", "{}"]);

const TEXT_NAMES = {
  traceback: "Traceback",
  stack: "Stacks before the kill",
  stdout_tail: "stdout",
  stderr_tail: "stderr",
  warnings: "Warnings",
  measurements: "Recorded facts",
};

/** Lists and objects in lines; what was cut is no JSON any more and stays as it is. */
function inLines(name, text) {
  if (name !== "warnings" && name !== "measurements") return text;
  try {
    const value = JSON.parse(text);
    if (Array.isArray(value)) return value.join("\n");
    return Object.entries(value).map(([key, each]) => `${key}: ${JSON.stringify(each)}`).join("\n");
  } catch {
    return text;
  }
}

function section(title, ...children) {
  return element("section", {}, element("h3", { text: title }), ...children);
}

function facts(lines, meaning = () => null) {
  const list = element("dl", { class: "facts" });
  for (const [name, value] of lines) {
    list.append(element("dt", { text: name.replaceAll("_", " "), title: meaning(name) }), element("dd", {}, value));
  }
  return list;
}
