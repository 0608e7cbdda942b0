// Copies the text of the element that a button names, and says so to everybody.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.copy));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  button.setAttribute("aria-live", "polite");
});

// Ticks, or clears, every box of the name that a box in the head gives.
document.addEventListener("change", (event) => {
  const name = event.target.dataset.tickAll;
  if (!name) return;
  for (const box of document.getElementsByName(name)) box.checked = event.target.checked;
});

// The theme has controls that only a pointer reaches: let Tab find them, and Enter press them.
const UNREACHABLE = "a:not([href]), [x-on\\:click*='rowOpen']";
const opened = (event) => (event.key === "Enter" || event.key === " ") && event.target.matches(UNREACHABLE);
document.addEventListener("DOMContentLoaded", () => {
  for (const control of document.querySelectorAll(UNREACHABLE)) {
    control.tabIndex = 0;
    control.setAttribute("role", "button");
  }
});
document.addEventListener("keydown", (event) => {
  if (!opened(event)) return;
  event.preventDefault();
  event.target.click();
});
