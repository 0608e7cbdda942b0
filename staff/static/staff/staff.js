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
