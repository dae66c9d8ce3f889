"use strict";
(() => {
  document.documentElement.classList.add("scripted");

  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.tagName === "TH") return cell.textContent;
    if (!("v" in cell.dataset)) return null;
    const value = Number(cell.dataset.v);
    return Number.isNaN(value) ? cell.dataset.v : value;
  };

  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  // What is not known stays at the end, whichever way the rest is sorted.
  const sort = (table, column, sign) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * order(a, b)));
    body.append(...rows.map(([, row]) => row));
  };

  const head = (table, cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = cell.classList.contains("num") ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const wanted = cell.getAttribute("aria-sort") === first ? second : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", wanted);
      sort(table, column, wanted === "ascending" ? 1 : -1);
    });
  };

  const filter = (table) => {
    const field = document.createElement("input");
    field.className = "filter";
    field.type = "search";
    field.placeholder = "Filter by name";
    field.setAttribute("aria-label", "Filter rows by name");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      }
    });
    table.parentElement.before(field);
  };

  for (const table of document.querySelectorAll("table.changes")) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => head(table, cell, column));
    if (table.tBodies[0].rows.length > 8) filter(table);
  }
})();
