"use strict";
(() => {
  document.documentElement.classList.add("scripted");
  const table = document.getElementById("row");
  const chart = document.querySelector("svg.roofline");

  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.tagName === "TH") return cell.textContent;
    if (!("v" in cell.dataset)) return null;
    const value = Number(cell.dataset.v);
    return Number.isNaN(value) ? cell.dataset.v : value;
  };

  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  // What is not known stays at the end, whichever way the rest is sorted.
  const sort = (column, sign) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
  };

  const head = (cell, column, heads) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = cell.classList.contains("num") ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const order = cell.getAttribute("aria-sort") === first ? second : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", order);
      sort(column, order === "ascending" ? 1 : -1);
    });
  };

  const mark = (number) => {
    document.querySelectorAll(".hit").forEach((hit) => hit.classList.remove("hit"));
    const points = chart ? chart.querySelectorAll(`.point[data-row="${number}"]`) : [];
    points.forEach((point) => point.classList.add("hit"));
    if (chart) chart.classList.toggle("picked", points.length > 0);
    const row = number === null ? null : document.getElementById(`row-${number}`);
    if (row) row.classList.add("hit");
    return row;
  };

  if (table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((cell, column) => head(cell, column, heads));
    const filter = document.createElement("input");
    filter.className = "filter";
    filter.type = "search";
    filter.placeholder = "Filter by name";
    filter.setAttribute("aria-label", "Filter rows by name");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        const names = [...row.querySelectorAll("th")].map((cell) => cell.textContent.toLowerCase());
        row.hidden = !names.some((name) => name.includes(wanted));
      }
    });
    table.parentElement.before(filter);
    table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      mark(row.classList.contains("hit") ? null : row.id.slice(4));
    });
  }
  if (chart) {
    chart.addEventListener("click", (event) => {
      const point = event.target.closest(".point");
      const row = mark(point && "row" in point.dataset ? point.dataset.row : null);
      if (row) row.scrollIntoView({ block: "center" });
    });
  }
})();
