// Steps through a page that `finch explain --html` wrote, forwards and back: node FILE page.js data.json
const page = require(process.argv[2]), data = JSON.parse(require("fs").readFileSync(process.argv[3]));
const assert = require("assert"), lines = (kernel, id) => kernel.terms[id][0].map((n) => kernel.lines[n]);
for (const kernel of data.kernels) {
  let k = 0;
  const forwards = [];
  for (;; k = page.next(kernel, k, 1)) {
    forwards.push(JSON.stringify(page.stateAt(kernel, k)));
    if (k === kernel.steps.length - 1) break;
  }
  for (; k >= 0; k--) {
    assert.strictEqual(JSON.stringify(page.stateAt(kernel, k)), forwards[k]);
    const state = page.stateAt(kernel, k), bare = (l) => l.map((t) => t.trim());
    const without = (sign) => state.diff.filter(([s]) => s !== sign).map(([, t]) => t);
    assert.deepStrictEqual(bare(without("+")), bare(state.before));
    assert.deepStrictEqual(without("-"), state.after);
    for (const [, before, after] of state.accesses)
      for (const access of [before, after])
        if (access && access[4] >= 0) {
          const svg = page.picture(kernel, access, 500);
          assert(svg.startsWith("<svg") && svg.endsWith("</svg>") && !/NaN|undefined/.test(svg), svg);
        }
    for (const t of kernel.tensors) assert(page.litAt(kernel, t, k).every((n) => t.reads.includes(n)));
    assert(page.next(kernel, k, 1, false, "key") > k || k === kernel.steps.length - 1);
    assert(page.next(kernel, k, 1, true) >= Math.min(k + 1, kernel.steps.length - 1));
    if (k === 0) break;
  }
  assert.strictEqual(page.next(kernel, 0, -1), 0);
}
console.log("stepped");
