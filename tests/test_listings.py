"""The listings of Finch'25, with the `end`s added that the paper leaves out, all parse."""

from __future__ import annotations

import pytest

from finchlang.syntax import KernelNode, Loop
from finchlang.text.parse import parse_kernel, parse_script
from finchlang.text.print import pretty
from finchlang.walk import walk

LISTINGS = {
    "Fig 2": """
for i = _
  if i % 2 == 0
    ap[i] = a[i]
  end
end
for i = _
  c[i] = ap[i] * b[i]
end""",
    "Fig 7": """
p .= 0
for j=1:n
    p[] *= A[j]
end""",
    "Fig 10": """
for i=_, j=_
  if UpTriMask()[i, j]
    s[] += OffsetTensor(A, (-1, 0))[i, j]
  end
end""",
    "Fig 11": """
C := 0
for i = 1:3
  for j = _
    for k = _
      C[i, j] += A[i, k] * B[k, j]
    end
  end
end""",
    "Fig 12": """
for i = _
  for j = I[i]:I[i]
    A[j] += 1
  end
  A[I[i]] += 1
end""",
    "Fig 13": """
y .= 0
for i = _
  y[i] = x[i] + 1
end
@thaw(x)
for i = _
  x[i] += 1
  y[i] += 1
end
@freeze(y)
for i = _
  x[i] += y[i]
end
@freeze(x)""",
    "Fig 16": """
for k = _
  A .= 0
  for i = _
    A[i] = B[i, k] * 2
    for j = _
      C[j, k] = A[i]^2 + D[k]
    end
  end
end""",
    "Fig 17": """
@declare(s, 0.0)
for j = 1:n
  for i = 1:m
    if T[i, j]
      s[] += A[i, j]
    end
  end
end
@freeze(s)""",
    "Fig 19": """
for j = _
  let x_j = x[j]
    y_j .= 0
    for i = _
      let A_ij = A[i, j]
        y[i] += x_j * A_ij
        y_j[] += A_ij * x[i]
      end
    end
    y[j] += y_j[] + D[j] * x_j
  end
end""",
    "Fig 21": """
C .= 0
for j=_
  w .= 0
  for k=_
    for i=_
      w[i] += A[i, k] * B[k, j]
    end
  end
  for i=_
    C[i, j] = w[i]
  end
end
return C""",
    "Fig 26 wordwise": """
output .= false
for y = _
  tmp .= false
  for x = _
    tmp[x] = coalesce(input[x, ~(y-1)], true) & input[x, y] &
      coalesce(input[x, ~(y+1)], true)
  end
  for x = _
    output[x, y] = coalesce(tmp[~(x-1)], true) & tmp[x] & coalesce(tmp[~(x+1)], true)
  end
end""",
    "Fig 26 histogram": """
bins .= 0
for x = _
  for y = _
    if mask[y, x]
      bins[div(img[y, x], 16) + 1] += 1
    end
  end
end""",
    "Fig 26 bitwise": """
for x = _
  if mask[x, y]
    let tl = coalesce(tmp[~(x-1)], 0xFFFFFFFF), t = tmp[x], tr =
        coalesce(tmp[~(x+1)], 0xFFFFFFFF)
      let res = ((tr << (8 * sizeof(UInt) - 1)) | (t >> 1)) & t &
          ((t << 1) | (tl >> (8 * sizeof(UInt) - 1)))
        output[x, y] = res
      end
    end
  end
end""",
}
SCRIPT_LISTINGS = {
    "Fig 7": """
p = ShortCircuitScalar{0}()
@finch begin
    p .= 0
    for j=1:n
        p[] *= A[j]
    end
end""",
    "Fig 18": """
for j = 1:n
  q = ptr[j]
  @finch for i = 1:j
    if t[i]
      s[] += a[i]
    end
  end
  @finch @freeze(s)
end""",
    "Fig 21": """
w = Tensor(SparseHash(SparseHash(Element(0))))
@finch begin
w .= 0
for k=_
for j=_
for i=_
w[i, j] += A[i, k] * BT[j, k]
end
end
end
C .= 0
for j=_, i=_
C[i, j] = w[i, j]
end
end""",
    "Fig 24": """
P = Tensor(Dense(Element(0)))
_F = Tensor(SparseByteMap(Pattern()))
function bfs_push(_F, F, A, V, P)
@finch begin
  _F .= false
  for j=_, k=_
    if F[j] && A[k, j] && !(V[k])
      _F[k] |= true
      P[k] <<choose(0)>>= j
    end
  end
  return _F
end
end
function bfs_pull(_F, F, AT, V, P)
p = ShortCircuitScalar{0}()
@finch begin
  _F .= false
  for k=_
    if !V[k]
      p .= 0
      for j=_
        if F[follow(j)] && AT[j, k]
          p[] <<choose(0)>>= j
          if p[] != 0
            _F[k] |= true
            P[k] = p[]
          end
        end
      end
    end
  end
  return _F
end
end
_D = Tensor(Dense(Element(Inf)), n)
function bellmanford(A, _D, D, _F, F)
@finch begin
  F .= false
  for j = _
    if !_F[j]
      for i = _
        let d = _D[j] + A[i, j]
          D[i] <<min>>= d
          F[i] |= d < _D[i]
        end
      end
    end
  end
end
end""",
}


@pytest.mark.parametrize("figure", LISTINGS)
def test_kernels_of_the_paper(figure):
    program = parse_kernel(LISTINGS[figure])
    assert parse_kernel(pretty(program)) == program
    loops = LISTINGS[figure].count("=_") + LISTINGS[figure].count("= _")
    assert sum(isinstance(node, Loop) for node in walk(program)) >= loops


@pytest.mark.parametrize("figure", SCRIPT_LISTINGS)
def test_scripts_of_the_paper(figure):
    text = SCRIPT_LISTINGS[figure]
    kernels = [node for node in walk(parse_script(text)) if isinstance(node, KernelNode)]
    assert len(kernels) == text.count("@finch")
