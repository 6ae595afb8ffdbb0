"use strict";
// Sorts and filters tables, and switches the colour scheme. The page can be read without it.
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

  for (const form of document.querySelectorAll("form.filter")) {
    const text = form.querySelector("[data-filter]");
    const spare = form.querySelector("[data-spare]");
    const shown = form.querySelector("output");
    const rows = [...document.getElementById(text.dataset.filter).tBodies[0].rows];
    const filter = () => {
      const part = text.value.trim().toLowerCase();
      let number = 0;
      for (const row of rows) {
        const isSpare = spare.checked && row.cells[row.cells.length - 1].textContent === "yes";
        row.hidden = isSpare || !valueOf(row.cells[0]).toLowerCase().includes(part);
        number += row.hidden ? 0 : 1;
      }
      shown.textContent = `${number} of ${rows.length}`;
    };
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
  }
}
