// Small pieces for the other scripts: elements are made with text only, so that nothing from results is ever parsed.

const byId = (id) => document.getElementById(id);

/**
 * Make an element.
 * @param {string} tag
 * @param {Object} attributes `text` is its text; `class` and the rest are attributes; null leaves one out.
 * @param {...(Node|string)} children
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function button(text, onClick, attributes = {}) {
  const made = element("button", { type: "button", text, ...attributes });
  made.addEventListener("click", onClick);
  return made;
}

/** A link where the address is that of a web page, else its text. */
function link(address, text = address) {
  if (!/^https:\/\/[^\s]+$/.test(address)) return element("span", { text });
  return element("a", { href: address, rel: "noopener noreferrer external", text });
}

const grouped = new Intl.NumberFormat("en");

/** A whole number with commas. */
const count = (number) => grouped.format(number);

const plural = (number, noun, nouns = `${noun}s`) => `${count(number)} ${number === 1 ? noun : nouns}`;

/** A number as a reader wants it; "inf" and "nan" come as words. */
function shownNumber(value, digits = 4) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return count(value);
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e6 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
}

/** The error of a cell, which the page keeps with three digits. */
const shownError = (error) => shownNumber(error, 3);

function shownSeconds(value) {
  if (value < 1) return `${Number((value * 1000).toPrecision(3))} ms`;
  return `${Number(value.toPrecision(3))} s`;
}

function shownBytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (Math.abs(value) >= 1000 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${Number(value.toPrecision(3))} ${units[place]}`;
}

const narrow = window.matchMedia("(max-width: 56rem)");
