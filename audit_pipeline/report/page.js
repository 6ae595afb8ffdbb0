"use strict";
// Sorts and filters tables, shows the values of a plot at the pointer, and switches the colour scheme.
// The page can be read without it.
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
  for (const head of document.querySelectorAll("table[id] thead th")) {
    head.firstElementChild.addEventListener("click", () => sort(head.closest("table"), head.cellIndex, head));
  }

  for (const plot of document.querySelectorAll("figure.chart .plot")) {
    const table = plot.parentElement.querySelector("table.numbers");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].filter((row) => row.dataset.place);
    const line = document.createElement("div");
    const values = document.createElement("div");
    line.className = "pointed";
    values.className = "values";
    line.hidden = values.hidden = true;
    plot.append(line, values);
    const distance = (row, share) => Math.abs(row.dataset.place - share);
    plot.addEventListener("pointermove", (event) => {
      const field = plot.querySelector(".field").getBoundingClientRect();
      const share = (event.clientX - field.left) / field.width;
      line.hidden = values.hidden = share < 0 || share > 1 || !rows.length;
      if (line.hidden) return;
      const row = rows.reduce((best, each) => (distance(each, share) < distance(best, share) ? each : best));
      const cells = [...row.cells].map((cell, number) => `${heads[number]}: ${cell.textContent || "not known"}`);
      values.textContent = cells.join("\n");
      const left = field.left - plot.getBoundingClientRect().left + row.dataset.place * field.width;
      line.style.left = `${left}px`;
      // The values are beside the line, on the side that has more room.
      const isRight = row.dataset.place < 0.5;
      values.style.left = isRight ? `${left + 8}px` : "auto";
      values.style.right = isRight ? "auto" : `${plot.clientWidth - left + 8}px`;
    });
    plot.addEventListener("pointerleave", () => { line.hidden = values.hidden = true; });
  }

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
        number += row.hidden ? 0 : 1;
      }
      shown.textContent = `${number} of ${rows.length}`;
    };
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
  }
}
