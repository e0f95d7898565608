// The site's search: Sphinx's index of words, ranked. A word counts more the fewer pages have it, and more in a title or
// in the sentence that a page says of itself than in its text, and words in their order twice; found.js has these
// sentences, and the claims: those that were decided answer before definitions.
(() => {
  "use strict";
  const stemmer = new Stemmer(), cache = new Map();
  const stem = (word) => cache.get(word) ?? cache.set(word, stemmer.stemWord(word)).get(word);
  const stems = (text) => splitQuery(text.toLowerCase()).filter((word) => !stopwords.includes(word)).map(stem);
  const list = (found) => (found === undefined ? [] : [].concat(found));
  const plain = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

  // How well words fit fields, which are [weight, stems]: in full, or as a beginning, which counts half.
  const fit = (asked, fields, rare) => {
    let score = 0, met = 0;
    asked.forEach((word, k) => {
      const best = Math.max(0, ...fields.map(([weight, own]) => (own.includes(word) ? weight : word.length > 2 && own.some((one) => one.startsWith(word)) ? weight / 2 : 0)));
      score += best * rare[k];
      met += best > 0;
    });
    return score * (met / asked.length) ** 2;
  };

  const escaped = (words) => Object.assign(document.createElement("p"), { textContent: words }).innerHTML;
  const claims = FOUND.claims.map(([id, place, verdict, html]) => [id, place, `${verdict}: ${html}`, plain(html), verdict !== "not testable"]);

  function ranked(query, index) {
    const asked = [...new Set(stems(query))], phrase = query.toLowerCase().trim(), found = [];
    if (!asked.length) return found;
    const pagesWith = asked.map((word) => new Set(list(index.terms[word]).concat(list(index.titleterms[word]))));
    const rare = pagesWith.map((pages) => Math.log(1 + index.docnames.length / (1 + pages.size)));
    const add = (score, address, title, words) => { if (score > 0) found.push({ score, address, title, words }); };

    const headings = index.docnames.map(() => []);
    for (const [title, places] of Object.entries(index.alltitles)) for (const [page, id] of places) headings[page].push([stems(plain(title)), plain(title), id]);
    index.docnames.forEach((name, page) => {
      if (!FOUND.pages[name]) return;
      const [sentence, keywords] = FOUND.pages[name], title = plain(index.titles[page]), text = asked.filter((_, k) => pagesWith[k].has(page));
      const own = [[5, stems(title)], [3, stems(`${sentence} ${keywords}`)]];
      const score = fit(asked, [...own, ...headings[page].map(([words]) => [2, words]), [1, text]], rare);
      const section = headings[page].find(([words, , id]) => id && asked.every((word) => words.includes(word)));
      const whole = asked.every((word) => own.some(([, words]) => words.includes(word)));
      const literal = [title, sentence, keywords].some((words) => words.toLowerCase().includes(phrase)) ? 2 : 1;
      const order = literal * (name.startsWith("book/reference/") ? 0.7 : name.startsWith("book/use/") ? 1.1 : 1);
      if (section && !whole) add(score * order, `${name}.html#${section[2]}`, `${title} > ${section[1]}`, escaped(sentence));
      else add(score * order, `${name}.html`, title, escaped(sentence));
    });
    for (const [id, place, words, statement, decided] of claims) {
      const at = place.toLowerCase(), exact = phrase === id || (/\d/.test(phrase) && at.includes(phrase) && !/\d/.test(at[at.indexOf(phrase) + phrase.length] ?? ""));
      const score = (decided ? 0.6 : 0.4) * fit(asked, [[5, stems(`${place} ${id}`)], [2, stems(statement)]], rare);
      add(exact ? 100 - place.length / 10 : score, `book/claims/${id}.html`, `${place} (${id})`, words);
    }
    for (const [prefix, objects] of Object.entries(index.objects)) {
      for (const [page, type, , anchor, name] of objects) {
        const full = prefix ? `${prefix}.${name}` : name, last = full.split(".").at(-1).toLowerCase(), shared = full.startsWith("hdpm_book");
        const exact = [last, full.toLowerCase()].includes(phrase), score = exact ? (shared ? 10 : 30) : phrase.length > 3 && last.includes(phrase) ? (shared ? 1 : 6) : 0;
        const id = anchor === "" ? full : anchor === "-" ? `${index.objnames[type][1]}-${full}` : anchor;
        add(score, `${index.docnames[page]}.html#${id}`, full, index.objnames[type][2]);
      }
    }
    found.sort((a, b) => b.score - a.score);
    return found.filter(({ score }) => score > 0.15 * found[0].score).slice(0, 40);
  }

  Search.query = (query) => {
    const found = ranked(query, Search._index);
    for (const { address, title, words } of found) {
      const link = Object.assign(document.createElement("a"), { href: address, textContent: title });
      const item = document.createElement("li"), said = document.createElement("p");
      said.innerHTML = words;
      item.append(link, said);
      Search.output.append(item);
    }
    _finishSearch(found.length);
  };
})();
