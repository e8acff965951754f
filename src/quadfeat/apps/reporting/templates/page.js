"use strict";
// Sort a table by the column whose head is pressed; press again to reverse the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = parseFloat(cell.dataset.value);
    return cell.dataset.value === undefined ? cell.textContent : number;
  };
  const compare = (a, b) => {
    if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b));
    if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
    return Number.isNaN(b) ? -1 : a - b;
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = Array.from(table.tBodies[0].rows);
      rows.sort((a, b) => (up ? 1 : -1) * compare(value(a, column), value(b, column)));
      table.tBodies[0].append(...rows);
    });
  });
}
// Explain a term when the reader points at it or moves the focus to it; Escape hides the text.
// The browser's own tooltip, which the title gives without this script, has no keyboard access.
const tip = document.createElement("div");
tip.className = "tip";
tip.id = "tip";
tip.setAttribute("role", "tooltip");
tip.hidden = true;
document.body.append(tip);
for (const term of document.querySelectorAll(".term")) {
  term.dataset.explanation = term.title;
  term.removeAttribute("title");
  const show = () => {
    tip.textContent = term.dataset.explanation;
    tip.hidden = false;
    const box = term.getBoundingClientRect();
    const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = box.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.left = `${Math.max(left, 8) + window.scrollX}px`;
    tip.style.top = `${(below ? box.bottom + 4 : box.top - tip.offsetHeight - 4) + window.scrollY}px`;
    term.setAttribute("aria-describedby", "tip");
  };
  const hide = () => {
    tip.hidden = true;
    term.removeAttribute("aria-describedby");
  };
  term.addEventListener("mouseenter", show);
  term.addEventListener("focus", show);
  term.addEventListener("mouseleave", hide);
  term.addEventListener("blur", hide);
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});
// Copy the code beside a button; if the browser does not allow that, select the code.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
