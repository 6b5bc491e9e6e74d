// Words of a chart that stick out of its frame.
() => {
  const out = (svg) => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter((text) => {
      const box = text.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1;
    });
  };
  return [...document.querySelectorAll("svg.chart")].flatMap(out).map((text) => text.textContent);
}
