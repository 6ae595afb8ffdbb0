"use strict";
// Sorts and filters tables, shows the values of a plot at the pointer, and switches the colour scheme.
// The page can be read without it.
const make = (name, attributes = {}, ...children) => {
  const isDrawn = ["svg", "path", "rect", "line", "text"].includes(name);
  const space = isDrawn ? document.querySelector("svg").namespaceURI : document.documentElement.namespaceURI;
  const made = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
{
  const root = document.documentElement;
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("scheme");
  const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : wanted.matches);
  const label = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.scheme = isDark() ? "light" : "dark"; label(); });
  wanted.addEventListener("change", label);
  label();

  const valueOf = (cell) => cell.dataset.value ?? cell.textContent;
  const sort = (table, column, head) => {
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const order = before ? (before === "ascending" ? "descending" : "ascending") : isNumber ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const compare = isNumber ? (a, b) => a - b : (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column]), row]);
    rows.sort((a, b) => sign * compare(a[0], b[0]));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
  };
  // One listener for all tables and plots: a filter replaces some of them.
  document.addEventListener("click", (event) => {
    const head = event.target.closest("table[id] thead th:has(> button)");
    if (head) sort(head.closest("table"), head.cellIndex, head);
  });

  // The line and the values at the pointer, of the plot that it is in.
  const pointed = (plot) => {
    if (!plot.querySelector(".pointed")) {
      plot.append(make("div", { class: "pointed" }), make("div", { class: "values" }));
    }
    return [plot.querySelector(".pointed"), plot.querySelector(".values")];
  };
  let current = null;
  const leave = () => { if (current) for (const each of pointed(current)) each.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest("figure.chart .plot");
    if (plot !== current) leave();
    current = plot;
    if (!plot) return;
    const [line, values] = pointed(plot);
    const table = plot.parentElement.querySelector("table.numbers");
    const [begin, end] = plot.parentElement.zoomed ?? [0, 1];
    const places = [...table.tBodies[0].rows].filter((row) => row.dataset.place)
      .map((row) => [(row.dataset.place - begin) / (end - begin), row]).filter(([place]) => place >= 0 && place <= 1);
    const field = plot.querySelector(".field").getBoundingClientRect();
    const share = (event.clientX - field.left) / field.width;
    line.hidden = values.hidden = share < 0 || share > 1 || !places.length;
    if (line.hidden) return;
    const distance = ([place]) => Math.abs(place - share);
    const [place, row] = places.reduce((best, each) => (distance(each) < distance(best) ? each : best));
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const cells = [...row.cells].map((cell, number) => `${heads[number]}: ${cell.textContent || "not known"}`);
    values.textContent = cells.join("\n");
    const left = field.left - plot.getBoundingClientRect().left + place * field.width;
    line.style.left = `${left}px`;
    // The values are beside the line, on the side that has more room.
    const isRight = place < 0.5;
    values.style.left = isRight ? `${left + 8}px` : "auto";
    values.style.right = isRight ? "auto" : `${plot.clientWidth - left + 8}px`;
  });
  document.documentElement.addEventListener("pointerleave", leave);

  for (const form of document.querySelectorAll("form.filter")) {
    const text = form.querySelector("[data-filter]");
    const spare = form.querySelector("[data-spare]");
    const shown = form.querySelector("output");
    const rows = [...document.getElementById(text.dataset.filter).tBodies[0].rows];
    const filter = () => {
      const part = text.value.trim().toLowerCase();
      let number = 0;
      for (const row of rows) {
        const isSpare = spare?.checked && row.cells[row.cells.length - 1].textContent === "yes";
        const searched = form.dataset.whole === undefined ? valueOf(row.cells[0]) : row.textContent;
        row.hidden = isSpare || !searched.toLowerCase().includes(part);
        number += row.hidden || row.dataset.out !== undefined ? 0 : 1;
      }
      shown.textContent = `${number} of ${rows.length}`;
    };
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
  }
}
