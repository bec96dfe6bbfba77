"use strict";
// Steps through the recording of kernels that `finch explain --html` puts beside this script. What is
// shown at a step follows from the data and its number alone, so that back is as good as on.

const WIDE = 70, H = 28, TAG = 15, GAP = 3, CHAR = 6.7;

// ------------------------------------------------------------------------------ what changed

/** The longest common subsequence of two lists of texts, but for blanks before them, as [tag, text]:
    "=" both have it, "-" the first, "+" the second. */
function diff(a, b) {
  const same = (s, t) => s === t || s.trimStart() === t.trimStart() && s.trim() !== "";
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && same(a[head], b[head])) head++;
  while (tail < a.length - head && tail < b.length - head && same(a[a.length - 1 - tail], b[b.length - 1 - tail])) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const table = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--)
      table[i][j] = same(x[i], y[j]) ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const found = b.slice(0, head).map((t) => ["=", t]);
  let i = 0, j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && same(x[i], y[j])) { found.push(["=", y[j]]); i++; j++; }
    else if (j >= y.length || (i < x.length && table[i + 1][j] >= table[i][j + 1])) found.push(["-", x[i++]]);
    else found.push(["+", y[j++]]);
  }
  return found.concat(b.slice(b.length - tail).map((t) => ["=", t]));
}

const wordsOf = (line) => line.match(/\s+|\w+|[^\w\s]/g) || [];

/** All that is shown at step k of a kernel, as plain data. */
function stateAt(kernel, k) {
  const step = kernel.steps[k], text = (id) => kernel.terms[id][0].flatMap((n) => asTree(kernel.lines[n]));
  const started = k > 0 ? kernel.steps[k - 1].grown : 0;
  return {
    step, before: text(step.before), after: text(step.after), diff: diff(text(step.before), text(step.after)),
    lit: step.lit.map((n) => kernel.places[n]), accesses: accessesAt(kernel, step),
    residual: kernel.residual.slice(0, step.grown), started,
  };
}

/** A line with looplets in each other as an indented tree, if it is long. */
function asTree(line) {
  const indent = line.match(/^ */)[0].length;
  if (line.length - indent <= WIDE) return [line];
  const out = [""];
  let depth = 0, opened = [];
  for (const word of line.slice(indent).match(/\w+\(|[()]|, |[^(),]+|,/g) || []) {
    const nest = /^(sequence|phase|stepper|jumper|blocks|spike|run|thunk|switch|choice|shift)\($/.test(word);
    if (nest && opened.includes(true)) out.push("  ".repeat(depth));
    out[out.length - 1] += word;
    if (word.endsWith("(")) { opened.push(nest); depth += nest; }
    if (word === ")" && opened.pop()) depth--;
  }
  return out.map((t, n) => " ".repeat(indent + (n ? 4 : 0)) + t);
}

/** The accesses of the terms before and after a step, by their places: [place, before, after]. */
function accessesAt(kernel, step) {
  const after = kernel.terms[step.after][1], before = kernel.terms[step.before][1];
  const of = (list, place) => list.find((a) => a[0] === place) || null;
  const places = [...new Set([...before, ...after].map((a) => a[0]))];
  const order = (p) => kernel.places[p][0] * 1e4 + kernel.places[p][1];
  return places.sort((p, q) => order(p) - order(q)).map((p) => [p, of(before, p), of(after, p)]);
}

/** The step to go to from k: one on or back, or past all premises of it; only those of a way to read. */
function next(kernel, k, by, isOver, way = "all") {
  const last = kernel.steps.length - 1, depth = kernel.steps[k].depth;
  let to = k + by;
  while (to > 0 && to < last && (isOver && kernel.steps[to].depth > depth || !isRead(kernel.steps[to], way))) to += by;
  return Math.min(Math.max(to, 0), last);
}

/** Whether a step is among the key steps, or among those that are not part of the step before. */
const isRead = (step, way) => way === "all" || (way === "key" ? !!step.key : !step.fold);

/** The positions of a tensor's entries that are lit at step k: the first, or in the end all that were read. */
function litAt(kernel, tensor, k) {
  const step = kernel.steps[k], read = kernel.residual.slice(0, step.grown).some(([text]) => text.includes(`= ${tensor.leaf}[`));
  return step.kind === "end" ? tensor.reads : read && step.kind !== "overview" ? tensor.reads.slice(0, 1) : [];
}

/** Text with names between backticks as code. */
const plain = (text) => escaped(text).replace(/`([^`]*)`/g, "<code>$1</code>");

function sourceText(kernel, place) {
  const [line, column, end, stop] = place, lines = kernel.source.slice(line - 1, end);
  if (!lines.length) return "";
  lines[lines.length - 1] = lines[lines.length - 1].slice(0, stop - 1);
  lines[0] = lines[0].slice(column - 1);
  return lines.map((l) => l.trim()).join(" ");
}

// ------------------------------------------------------------------------------ looplets as pictures

const escaped = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

function label(x, y, text, width, more = "") {
  const room = Math.floor(width / CHAR);
  if (room < 2) return "";
  const short = text.length > room ? text.slice(0, room - 1) + "…" : text;
  return `<text x="${x}" y="${y}" font-size="11.5" ${more}>${escaped(short)}<title>${escaped(text)}</title></text>`;
}

const tag = (x, y, text, colour, width) => label(x, y, text, width, `style="fill:var(--${colour})" font-weight="600"`);

function bar(x, y, w, h, colour, more = "") {
  return `<rect x="${x}" y="${y}" width="${Math.max(w, 1)}" height="${h}" rx="4" style="fill:var(--${colour})" ${more}/>`;
}

/** A looplet as a box: its height, and how it is drawn; quiet ones have no words. */
function box(kernel, id, quiet = false) {
  const [kind, text, inner, start, stop, seeks] = kernel.parts[id];
  const inside = (n, q = quiet) => box(kernel, inner[n], q);
  const said = (n) => spelling(kernel, inner[n]);
  const centre = (x, y, w, t) => quiet ? "" : label(x + w / 2, y + 18, t, w - 8, 'text-anchor="middle"');
  switch (kind) {
    case "payload":
      return { h: H, draw: (x, y, w) => bar(x, y, w, H, "card", 'stroke="var(--line)"') + centre(x, y, w, text) };
    case "run":
      if (kernel.parts[inner[0]][0] !== "payload") return titled("run", "run-ink", inside(0), quiet);
      return { h: H, draw: (x, y, w) => bar(x, y, w, H, "run") + centre(x, y, w, w > 90 ? `run ${said(0)}` : said(0)) };
    case "lookup":
      if (kernel.parts[inner[0]][0] !== "payload") return titled("lookup", "lookup", inside(0), quiet);
      return { h: H, draw: (x, y, w) => {
        const n = Math.max(2, Math.floor(w / 16)), cell = w / n;
        let out = bar(x, y, w, H, "lookup", 'fill-opacity=".13" stroke="var(--lookup)"');
        for (let k = 1; k < n; k++)
          out += `<line x1="${x + k * cell}" x2="${x + k * cell}" y1="${y + H - 7}" y2="${y + H}" stroke="var(--lookup)"/>`;
        return out + (quiet ? "" : label(x + w / 2, y + 16, w > 120 ? `lookup ${said(0)}` : said(0), w - 8, 'text-anchor="middle"'));
      } };
    case "spike":
      return { h: H + (quiet ? 0 : TAG), draw: (x, y, w) => {
        const top = y + (quiet ? 0 : TAG);
        return bar(x, top, w - 8, H, "run") + bar(x + w - 7, top, 7, H, "spike")
          + (quiet ? "" : centre(x, top, w - 8, w > 110 ? `spike ${said(0)}` : said(0))
            + label(x + w, y + 11, said(1), w, 'text-anchor="end" style="fill:var(--spike)" font-weight="600"'));
      } };
    case "acceptrun":
      return { h: H, draw: (x, y, w) => bar(x, y, w, H, "accept", 'fill-opacity=".15" stroke="var(--accept)"')
        + centre(x, y, w, `${w > 150 ? "accepts a run " : ""}→ ${said(0)}`) };
    case "phase": {
      const one = inside(0);
      return { h: one.h + (quiet ? 4 : TAG + 2), draw: (x, y, w) => {
        const low = y + one.h + 4;
        return one.draw(x, y, w) + `<path d="M${x + .5} ${low - 3}v5h${w - 1}v-5" fill="none" stroke="var(--soft)"/>`
          + (quiet ? "" : label(x + 3, low + 13, start, w / 2 - 4) + label(x + w - 3, low + 13, stop, start ? w / 2 - 4 : w - 6, 'text-anchor="end"'));
      } };
    }
    case "sequence": {
      const boxes = inner.map((_, n) => inside(n)), h = Math.max(...boxes.map((b) => b.h));
      const shares = inner.map((n) => share(kernel, n)), all = shares.reduce((a, b) => a + b, 0);
      return { h, draw: (x, y, w) => {
        let out = "", room = w - GAP * (boxes.length - 1);
        boxes.forEach((b, n) => {
          const mine = room * shares[n] / all;
          out += b.draw(x, y + h - b.h, mine);
          x += mine + GAP;
        });
        return out;
      } };
    }
    case "stepper": case "jumper": case "blocks":
      return steps(kind, (seeks ? " that seeks first" : "") + (text ? `, each to ${text}` : ""), inside(0), inside(0, true), quiet);
    case "thunk": {
      const one = inside(0), pad = quiet ? 2 : TAG + 1;
      return { h: one.h + pad + 3, draw: (x, y, w) =>
        `<rect x="${x + .5}" y="${y + (quiet ? .5 : 5)}" width="${w - 1}" height="${one.h + pad - (quiet ? 0 : 5) + 2}" rx="6" fill="none" stroke="var(--thunk)" stroke-dasharray="4 3"/>`
        + (quiet ? "" : `<rect x="${x + 8}" y="${y}" width="42" height="11" style="fill:var(--card)"/>` + tag(x + 11, y + 9, "thunk", "thunk", w))
        + one.draw(x + 4, y + pad, w - 8) };
    }
    case "switch": case "choice": {
      const conditions = kind === "switch" ? [`if ${text}`, "else"] : [...text.split("; ").map((c) => `if ${c}`), "else"];
      const boxes = inner.map((_, n) => inside(n)), pad = quiet ? 2 : TAG;
      return { h: boxes.reduce((a, b) => a + b.h + pad, 0) + 2, draw: (x, y, w) => {
        let out = `<path d="M${x + 4} ${y + 2}v${boxes.reduce((a, b) => a + b.h + pad, 0) - 2}" stroke="var(--switch)" stroke-width="3"/>`;
        boxes.forEach((b, n) => {
          out += (quiet ? "" : tag(x + 12, y + 11, conditions[n], "switch", w - 14)) + b.draw(x + 10, y + pad, w - 10);
          y += b.h + pad;
        });
        return out;
      } };
    }
    case "shift":
      return titled(`shifted by ${text} →`, "soft", inside(0), quiet);
  }
  return { h: H, draw: (x, y, w) => bar(x, y, w, H, "card") + centre(x, y, w, spelling(kernel, id)) };
}

function titled(words, colour, one, quiet) {
  const pad = quiet ? 0 : TAG;
  return { h: one.h + pad, draw: (x, y, w) => (quiet ? "" : tag(x + 2, y + 11, words, colour, w)) + one.draw(x, y + pad, w) };
}

/** Any number of looplets one after the other, of any widths; an arrow leads from each to the next. */
function steps(kind, more, one, copy, quiet) {
  const colour = kind === "stepper" ? "stepper" : "jumper", pad = quiet ? 9 : 30, high = kind === "stepper" ? 9 : 14;
  return { h: one.h + pad, draw: (x, y, w) => {
    const shares = w > 230 ? [.5, .2, .14, .16] : [.62, .38];
    const top = y + pad, foot = top + one.h;
    let out = "", at = x;
    shares.forEach((part, n) => {
      const mine = part * w - GAP, b = n ? copy : one, fade = 1 - .24 * n;
      out += n === shares.length - 1 && n > 1
        ? label(at + mine / 2, foot - H / 2 + 4, "⋯", mine, `text-anchor="middle" style="fill:var(--${colour})"`)
        : `<g opacity="${fade}">${b.draw(at, foot - b.h, mine)}</g>`;
      if (n < shares.length - 1) {
        const from = n ? at + mine / 2 : at + mine * .8, to = at + part * w + Math.max(shares[n + 1] * w * .35, 6);
        const base = top - 1;
        out += `<path d="M${from} ${base}Q${(from + to) / 2} ${base - 2 * high} ${to} ${base}" fill="none" stroke="var(--${colour})" stroke-width="1.6" ${kind === "stepper" ? "" : 'stroke-dasharray="5 2"'}/>`
          + `<path d="M${to} ${base + 1}l-5 -3.5 4.6 -2.6z" style="fill:var(--${colour})"/>`;
      }
      at += part * w;
    });
    return out + (quiet ? "" : tag(x, y + 11, kind + more, colour, w));
  } };
}

/** How much room a phase takes of a sequence. */
function share(kernel, id) {
  const [kind, , inner] = kernel.parts[id];
  if (["stepper", "jumper", "blocks"].includes(kind)) return 3.4;
  return inner.length ? Math.max(...inner.map((n) => share(kernel, n))) + (kind === "switch" ? .5 : 0) : 1;
}

/** A looplet as text. */
function spelling(kernel, id) {
  const [kind, text, inner] = kernel.parts[id];
  return kind === "payload" ? text : `${kind}(${inner.map((n) => spelling(kernel, n)).join(", ")})`;
}

/** The picture of an access [place, text, index, region, part], with the axis of its index. */
function picture(kernel, access, width) {
  const [, , index, region, id] = access, one = box(kernel, id), low = one.h + 8, w = width - 2;
  let out = one.draw(1, 2, w) + `<line x1="1" x2="${w + 1}" y1="${low}" y2="${low}" stroke="var(--soft)"/>`;
  if (region && region.length === 2)
    out += `<path d="M1.5 ${low - 3}v6M${w + .5} ${low - 3}v6" stroke="var(--soft)"/>`
      + label(2, low + 14, `${index} = ${region[0]}`, w / 2, 'style="fill:var(--soft)"')
      + label(w, low + 14, region[1], w / 2, 'text-anchor="end" style="fill:var(--soft)"');
  else if (region && region.length)
    out += `<circle cx="${w * .4}" cy="${low}" r="4" style="fill:var(--accent)"/>` + label(w * .4 + 8, low + 14, `at ${region[0]}`, w / 2, 'style="fill:var(--accent)"');
  return `<svg viewBox="0 0 ${width} ${low + 19}" width="${width}" height="${low + 19}" role="img" aria-label="${escaped(spelling(kernel, id))}">${out}</svg>`;
}

// ------------------------------------------------------------------------------ the page

function show(page) {
  const $ = (id) => document.getElementById(id);
  let at = 0, k = 0, rows = [], way = "main";
  const kernel = () => page.kernels[at];

  function read() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const n = Math.min(Math.max((+asked.get("kernel") || 1) - 1, 0), page.kernels.length - 1);
    if (n !== at || !rows.length) choose(n);
    go(+asked.get("step") || 0);
  }

  function choose(n) {
    at = n;
    $("kernels").value = n;
    $("slider").max = kernel().steps.length - 1;
    $("slider").min = 0;
    list();
  }

  /** The steps by chapters: those of the way to read that is chosen, and the one at hand. */
  function list() {
    let chapter = "";
    $("ways").value = way;
    $("steps").innerHTML = kernel().steps.map((s, n) => {
      const head = s.chapter !== chapter && isRead(s, way) ? `<div class="chapter">${escaped(chapter = s.chapter)}</div>` : "";
      const name = `${escaped(s.rule)}${s.at ? ` [${escaped(s.at)}]` : ""}${s.kind === "premise" ? " …" : ""}`;
      return head + `<div class="row ${s.kind} ${s.key ? "key" : ""}" data-step="${n}" ${isRead(s, way) ? "" : "hidden"} title="${escaped(s.say)}"><span class="no">${n}</span><b>${name}</b><span class="word">${plain(s.say)}</span></div>`;
    }).join("") + (kernel().leftOut ? `<div class="row premise">${kernel().leftOut} more steps are left out</div>` : "");
    rows = [...$("steps").querySelectorAll("[data-step]")];
    if (rows[k]) rows[k].classList.add("now");
  }

  function read_by(chosen) {
    way = chosen;
    list();
    go(k);
  }

  function go(to) {
    if (rows[k]) rows[k].classList.remove("now");
    k = Math.min(Math.max(to, 0), kernel().steps.length - 1);
    rows[k].classList.add("now");
    within($("steps"), rows[k]);
    $("slider").value = k;
    $("count").textContent = `${k} / ${kernel().steps.length - 1}`;
    const hash = (page.kernels.length > 1 ? `kernel=${at + 1}&` : "") + `step=${k}`;
    if (location.hash.slice(1) !== hash) history.replaceState(null, "", `#${hash}`);
    const state = stateAt(kernel(), k);
    program(state); rule(state); looplets(state); term(state); residual(state); data();
  }

  /** Scroll a list, and not the page, so that a row is seen. */
  function within(list, row) {
    if (!row) return;
    const a = list.getBoundingClientRect(), b = row.getBoundingClientRect();
    if (b.top < a.top || b.bottom > a.bottom) list.scrollTop += b.top - a.top - a.height / 2;
  }

  function program(state) {
    const source = kernel().source, [first, last] = kernel().place || [1, source.length];
    $("program").innerHTML = source.slice(first - 1, last).map((line, n) => {
      const number = first + n, hit = new Array(line.length).fill(false), indent = line.length - line.trimStart().length;
      for (const [l, c, l2, c2] of state.lit)
        if (l <= number && number <= l2)
          hit.fill(true, Math.max(l === number ? c - 1 : 0, indent), number === l2 ? c2 - 1 : line.length);
      const cut = line.split("").map((c, i) => (hit[i] && !hit[i - 1] ? "<mark>" : "") + escaped(c) + (hit[i] && !hit[i + 1] ? "</mark>" : ""));
      return `<div class="row"><span class="no">${number}</span><span>${cut.join("")}</span></div>`;
    }).join("");
    const mark = $("program").querySelector("mark");
    if (mark) within($("program"), mark);
  }

  function rule(state) {
    const { step } = state, known = page.rules[step.rule] || {};
    const kinds = { pass: "preparation", overview: "the whole", end: "the result", premise: "its parts come first" };
    const kind = kinds[step.kind] || (known.derived ? "derived rule" : "rule"), wasOpen = $("rule").querySelector("details")?.open;
    const parts = (step.parts || []).map(([name, a, b, what]) => `<button class="part" data-go="${a}"><b>${name}</b><small>${a === b ? `step ${a}` : `steps ${a} to ${b}`}</small>${escaped(what)}</button>`).join("<span>→</span>");
    $("rule").innerHTML = `<p class="sentence">${plain(step.say)}</p>`
      + (parts ? `<div class="parts">${parts}</div><button class="start">show me the ${kernel().steps.filter((s) => s.key).length} key steps</button>` : "")
      + `<div><span class="name">${escaped(step.rule)}</span><span class="badge">${kind}</span>`
      + (step.at ? `<span class="badge">iterations from ${escaped(step.at)}</span>` : "") + "</div>"
      + (step.told ? `<div class="say">${plain(step.told)}</div>` : "")
      + (known.law && !kinds[step.kind] || step.kind === "premise" ? `<details ${wasOpen ? "open" : ""}><summary>as in the paper</summary>${known.law.split("\n\n").map(paragraph).join("")}</details>` : "");
    for (const part of $("rule").querySelectorAll("[data-go]")) part.onclick = () => go(+part.dataset.go);
    const start = $("rule").querySelector(".start");
    if (start) start.onclick = () => { read_by("key"); move(1); };
    $("rule").scrollTop = 0;
  }

  /** A rule is written in lines; what is said of it is prose. */
  function paragraph(text) {
    return /[⟨⟩→⟹]/.test(text) ? `<div class="law">${escaped(text)}</div>` : `<div class="say">${escaped(text.replace(/\n/g, " "))}</div>`;
  }

  function looplets(state) {
    const width = Math.max(($("looplets").clientWidth || 400) - 24, 200), lit = new Set(state.step.lit);
    const html = state.accesses.map(([place, before, after]) => {
      const name = sourceText(kernel(), kernel().places[place]), now = after || before;
      const was = before && before[4] >= 0 && (!after || before[4] !== after[4]) ? picture(kernel(), before, width) : "";
      const is = after && after[4] >= 0 ? picture(kernel(), after, width) : "";
      const text = !after ? (state.step.rule === "Access" ? "is read" : "is done") : is ? "" : after[1] === name ? "" : `is ${after[1]}`;
      return `<div class="acc ${lit.has(place) ? "hit" : ""}"><div class="head"><span class="was">${escaped(name)}</span><span class="is">${escaped(text)}</span></div>`
        + (was && lit.has(place) ? `<div class="old">${was}</div>${is ? '<div class="then">↓ becomes</div>' : ""}` : "") + is + "</div>";
    });
    $("looplets").innerHTML = html.join("") || '<div class="acc"><div class="head"><span class="is">there is no access in this term</span></div></div>';
    const first = $("looplets").querySelector(".hit");
    $("looplets").scrollTop = 0;
    if (first) within($("looplets"), first.querySelector(".head"));
  }

  function term(state) {
    const lines = state.diff, html = [];
    // a line beside the most similar one of the others, with what that has not in bold
    const words = (line, others, t) => {
      const pairs = others.map((o) => t === "-" ? diff(wordsOf(line), wordsOf(o)) : diff(wordsOf(o), wordsOf(line)));
      const kept = (pair) => pair.filter(([s, w]) => s === "=" && w.trim()).length / Math.max(pair.filter(([, w]) => w.trim()).length, 1);
      const best = pairs.sort((p, q) => kept(q) - kept(p))[0];
      if (!best || kept(best) < .3) return escaped(line);
      return best.filter(([s]) => s === "=" || s === t).map(([s, w]) => (s === "=" ? escaped(w) : `<b>${escaped(w)}</b>`)).join("");
    };
    for (let n = 0; n < lines.length;) {
      if (lines[n][0] === "=") { html.push(row("", " ", escaped(lines[n++][1]))); continue; }
      let m = n;
      while (m < lines.length && lines[m][0] !== "=") m++;
      const gone = lines.slice(n, m).filter(([s]) => s === "-").map(([, t]) => t), come = lines.slice(n, m).filter(([s]) => s === "+").map(([, t]) => t);
      gone.forEach((t) => html.push(row("gone", "−", words(t, come, "-"))));
      come.forEach((t) => html.push(row("come", "+", words(t, gone, "+"))));
      n = m;
    }
    if (state.step.kind === "step" && lines.length && lines.every(([s]) => s === "="))
      html.push('<div class="row note">it reads the same: what is known is a literal now</div>');
    if (!state.after.length) html.push(row("come", "+", "<i>nothing is left: done</i>"));
    $("term").innerHTML = html.join("");
    within($("term"), $("term").querySelector(".gone, .come"));
    function row(kind, sign, text) { return `<div class="row ${kind}"><span><span class="sign">${sign}</span>${text}</span></div>`; }
  }

  function residual(state) {
    const { started } = state;
    $("residual").innerHTML = state.residual.map(([text, by, step, values, times], n) => {
      const shown = values ? `<span class="values">${escaped(values.join("  "))}${times > values.length ? ` <i>… ${times} times</i>` : ""}</span>` : "";
      const place = step >= 0 ? kernel().steps[step].lit.map((p) => sourceText(kernel(), kernel().places[p]))[0] : "";
      const kind = n >= started ? "new" : step === k ? "same" : "", note = kernel().notes[n];
      return `<div class="row ${kind}" data-step="${step}" title="${escaped(by ? `${by}${place ? `, for ${place}` : ""}` : "given")}">${escaped(text.replace(/fail\('([\w /]+)', .*/, "fail($1)"))}${note ? `<span class="note">  # ${plain(note)}</span>` : ""}${shown}</div>`;
    }).join("") || '<div class="none">nothing yet</div>';
    const fresh = $("residual").querySelector(".new:last-child") || $("residual").lastElementChild;
    within($("residual"), fresh);
  }

  function data() {
    const { formats, arrays, tensors } = kernel(), drawn = new Set(tensors.filter((t) => t.svg).map((t) => t.name));
    if ($("data").dataset.of !== String(at)) {
      $("data").dataset.of = at;
      $("about-data").textContent = arrays.length ? "— of the first run; green: written by it" : "";
      const pictures = tensors.filter((t) => t.svg).map((t) => `<div class="drawn" data-name="${escaped(t.name)}"><div>${escaped(t.name)}: ${escaped(t.format)} <b class="visited"></b></div>${t.svg}</div>`);
      $("data").innerHTML = pictures.join("") + formats.filter(([n]) => !drawn.has(n)).map(([n, f]) => `<div>${escaped(n)}: ${escaped(f)}</div>`).join("")
        + arrays.filter(([name, , , , fresh]) => fresh || ![...drawn].some((d) => name.startsWith(`${d}_`))).map(([name, type, first, all, fresh]) => `<div class="array ${fresh ? "new" : ""}" title="${escaped(type)}[${all}]">${escaped(name)} = [${escaped(first.join(", "))}${all > first.length ? ` … ${all} in all` : ""}]</div>`).join("");
    }
    for (const box of $("data").querySelectorAll(".drawn")) {
      const tensor = tensors.find((t) => t.name === box.dataset.name), lit = new Set(litAt(kernel(), tensor, k).map(String));
      box.querySelector(".visited").textContent = lit.size ? `visited ${lit.size} of ${tensor.places}` : "";
      for (const cell of box.querySelectorAll("[data-at]")) cell.classList.toggle("now", lit.has(cell.dataset.at));
    }
  }

  /** The legend: colours, shapes with their sentences, signs and names. */
  function legend() {
    const shapes = {
      run: [["payload", "0.0", []], ["run", "", [0]]], spike: [["payload", "0.0", []], ["payload", "A_val[q]", []], ["spike", "", [0, 1]]],
      lookup: [["payload", "x_val[i - 1]", []], ["lookup", "", [0]]], stepper: [["payload", "0.0", []], ["payload", "A_val[q]", []], ["spike", "", [0, 1]], ["stepper", "A_idx1[q] + 1", [2]]],
      jumper: [["payload", "0.0", []], ["payload", "A_val[q]", []], ["spike", "", [0, 1]], ["jumper", "A_idx1[q] + 1", [2]]],
      sequence: [["payload", "true", []], ["run", "", [0]], ["phase", "", [1], "", "j"], ["payload", "false", []], ["run", "", [3]], ["phase", "", [4], "", ""], ["sequence", "", [2, 5]]],
      phase: [["payload", "true", []], ["run", "", [0]], ["phase", "", [1], "1", "j"]], switch: [["payload", "1.0", []], ["run", "", [0]], ["payload", "0.0", []], ["run", "", [2]], ["switch", "i == 3", [1, 3]]],
      thunk: [["payload", "0.0", []], ["run", "", [0]], ["thunk", "", [1]]], acceptrun: [["payload", "y_val[...]", []], ["acceptrun", "", [0]]],
    };
    const drawn = Object.entries(page.looplets).filter(([kind]) => shapes[kind]).map(([kind, what]) => {
      const parts = shapes[kind], one = box({ parts }, parts.length - 1);
      return `<dt>${kind}</dt><dd>${escaped(what)}<svg viewBox="0 0 240 ${one.h + 4}" width="240" height="${one.h + 4}">${one.draw(1, 2, 238)}</svg></dd>`;
    });
    $("legend-text").innerHTML = `<h3>Colours</h3><dl><dt><mark>yellow</mark></dt><dd>the step is about this</dd><dt><span class="gone">red</span></dt><dd>gone after the step</dd>`
      + `<dt><span class="come">green</span></dt><dd>new after the step</dd><dt><span class="blue">blue</span></dt><dd>values of the first run</dd></dl><h3>Shapes</h3><dl>${drawn.join("")}</dl>`
      + `<h3>Signs in rules</h3><dl><dt>⟨a, s⟩ → ⟨b, t⟩</dt><dd>a program a in the state s becomes b in the state t</dd><dt>p ⟹ q</dt><dd>if p holds, the step q is taken</dd><dt>E[x]</dt><dd>a program in which x stands somewhere</dd></dl>`
      + `<h3>Names</h3><dl><dt>A_ptr1, A_idx1, A_val</dt><dd>the arrays of the tensor A, with the number of the dimension</dd><dt>A@(j - 1)</dt><dd>the part of A at a position: column j</dd><dt>q_1, q_2</dt><dd>versions of one name</dd><dt>i'</dt><dd>a value that is known by then</dd></dl>`;
  }

  const move = (by, isOver) => go(next(kernel(), k, by, isOver, way));
  legend();
  $("ways").onchange = (e) => { read_by(e.target.value); e.target.blur(); };
  $("ask").onclick = () => $("legend").showModal();
  $("legend").onclick = (e) => { if (e.target === $("legend")) $("legend").close(); };
  $("title").textContent = `${page.name}: how it is lowered`;
  document.title = `${page.name}, lowered`;
  $("kernels").innerHTML = page.kernels.map((kn, n) => `<option value="${n}">kernel ${n + 1}${kn.place ? `, line ${kn.place[0]}` : ""}</option>`).join("");
  $("kernels").hidden = page.kernels.length < 2;
  $("kernels").onchange = (e) => { choose(+e.target.value); go(0); e.target.blur(); };
  $("slider").oninput = (e) => go(+e.target.value);
  for (const id of ["back", "back2"]) $(id).onclick = () => move(-1);
  for (const id of ["on", "on2"]) $(id).onclick = () => move(1);
  $("steps").onclick = $("residual").onclick = (e) => {
    const hit = e.target.closest("[data-step]");
    if (hit && +hit.dataset.step >= 0) go(+hit.dataset.step);
  };
  document.onkeydown = (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT" || $("legend").open) return;
    const keys = { ArrowRight: [1], ArrowLeft: [-1], " ": [e.shiftKey ? -1 : 1], ArrowDown: [1, true], ArrowUp: [-1, true], Home: [-Infinity], End: [Infinity] };
    if (keys[e.key]) { e.preventDefault(); move(...keys[e.key]); }
  };
  let touch = null;
  document.addEventListener("touchstart", (e) => { touch = e.touches.length === 1 && !e.target.closest("input, .residual, .code") ? e.touches[0] : null; }, { passive: true });
  document.addEventListener("touchend", (e) => {
    if (!touch) return;
    const dx = e.changedTouches[0].clientX - touch.clientX, dy = e.changedTouches[0].clientY - touch.clientY;
    if (Math.abs(dx) > 70 && Math.abs(dy) < 40) move(dx < 0 ? 1 : -1);
  }, { passive: true });
  addEventListener("hashchange", read);
  addEventListener("resize", () => go(k));
  read();
}

if (typeof document !== "undefined") show(JSON.parse(document.getElementById("data-of-page").textContent));
else module.exports = { diff, stateAt, next, picture, spelling, litAt };
