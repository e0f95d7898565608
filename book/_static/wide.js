// Tables, formulas and code wider than the page: the keyboard reaches and scrolls them, and all but code fade where more
// follows. Names of code in a table may be broken after a dot or a low line, as words are between letters nowhere.
document.addEventListener('DOMContentLoaded', () => {
  const look = box => {
    const more = box.scrollWidth - box.clientWidth;
    const other = box.matches('pre') ? 'Code' : box.matches('.math') ? 'Formula' : box.matches('.cell_output') && 'Output';
    if (!box.matches('pre')) {
      box.classList.toggle('hdpm-before', box.scrollLeft > 1);
      box.classList.toggle('hdpm-after', more - box.scrollLeft > 1);
    }
    if (box.matches('.hdpm-scroll')) return;  // a region with a name as it is
    if (more > 1) {
      const title = box.closest('section')?.querySelector('h1, h2, h3, h4')?.cloneNode(true);
      title?.querySelectorAll('.headerlink, .math').forEach(part => part.remove());
      box.tabIndex = 0;
      box.role = box.matches('.math, pre') ? 'group' : 'region';
      box.ariaLabel = other || `Table: ${title?.textContent.trim() ?? document.title}`;
    } else {
      for (const name of ['tabindex', 'role', 'aria-label']) box.removeAttribute(name);
    }
  };
  for (const name of document.querySelectorAll('.bd-article td code:not(:has(*)), .bd-article td code .pre'))
    name.innerHTML = name.innerHTML.replace(/[._]+(?=\w)/g, '$&<wbr>');
  const sizes = new ResizeObserver(changed => changed.forEach(({ target }) => look(target.closest('.indextable, :not(table, math)'))));
  const long = [...document.querySelectorAll('main :is(.math, pre, .cell_output)')].filter(
    box => !box.matches('.math') || box.querySelectorAll('math *').length > 9);
  for (const box of [...document.querySelectorAll('.hdpm-scroll, .pst-scrollable-table-container, .indextable'), ...long]) {
    box.addEventListener('scroll', () => look(box), { passive: true });
    for (const seen of [box, box.querySelector('table')]) if (seen) sizes.observe(seen);
  }
});
