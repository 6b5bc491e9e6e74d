// Every text node's colour against the nearest painted ground behind it, by the WCAG formula:
// below 4.5 (3 when the type is large) is a complaint.
() => {
  const parse = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const complaints = new Set();
  while (walker.nextNode()) {
    const words = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!words || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = luminance(parse(element.closest("svg") ? style.fill : style.color));
    const behind = luminance(ground(element));
    const ratio = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) complaints.add(`${words.slice(0, 40)} ${ratio.toFixed(2)}`);
  }
  return [...complaints];
}
