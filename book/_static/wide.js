// Tables wider than the page: their edge fades where more follows, and the keyboard reaches and scrolls them. Names of
// code in a table may be broken after a dot or a low line, as words are between letters nowhere.
document.addEventListener('DOMContentLoaded', () => {
  const look = box => {
    const more = box.scrollWidth - box.clientWidth;
    box.classList.toggle('hdpm-before', box.scrollLeft > 1);
    box.classList.toggle('hdpm-after', more - box.scrollLeft > 1);
    if (box.matches('.hdpm-scroll')) return;  // a region with a name as it is
    if (more > 1) {
      const title = box.closest('section')?.querySelector('h1, h2, h3, h4')?.cloneNode(true);
      title?.querySelectorAll('.headerlink, .math').forEach(part => part.remove());
      box.tabIndex = 0;
      box.role = 'region';
      box.ariaLabel = `Table: ${title?.textContent.trim() ?? document.title}`;
    } else {
      for (const name of ['tabindex', 'role', 'aria-label']) box.removeAttribute(name);
    }
  };
  for (const name of document.querySelectorAll('.bd-article td code .pre'))
    name.innerHTML = name.innerHTML.replace(/[._]+(?=\w)/g, '$&<wbr>');
  const sizes = new ResizeObserver(changed => changed.forEach(({ target }) => look(target.closest('.indextable, :not(table)'))));
  for (const box of document.querySelectorAll('.hdpm-scroll, .pst-scrollable-table-container, .indextable')) {
    box.addEventListener('scroll', () => look(box), { passive: true });
    for (const seen of [box, box.querySelector('table')]) if (seen) sizes.observe(seen);
  }
});
