"""The names of other languages, each with our way: one table for scripts, one for kernels."""

#: `names(parameters) | ours` for calls with so many arguments, `names | ours` for a name alone. Ours is code,
#: or text after a colon. Code after `@.` stands for each entry of arrays in scripts. A name that begins with
#: a dot is a method, whose object is the first parameter. A parameter `string`
#: is a string that is typed there, `[]` the empty vector, `np.f` a function of NumPy that ours of that name is not.
TABLE = """
# Python, NumPy, SciPy
solve(A, b) | A \\ b
arange(n) | 0:n - 1
arange(a, b) | a:b - 1
arange | : `a:s:b` is a range with both of its ends
ogrid indices ndindex ndenumerate | : `for j in 1:n, i in 1:m` goes through the entries
range(n) | : `1:n` counts from 1, as indices do; the numbers of Python's `range(n)` are `0:n - 1`
linspace(a, b, n) | range(a, b, length=n)
where ifelse np_where(c, a, b) | @. ifelse(c, a, b)
where flatnonzero argwhere nonzero find(x) | findall((t) -> t != 0, x)
clip(x, a, b) | @. clamp(x, a, b)
len(x) | : `length(x)` counts the entries; the rows of a matrix are `size(x, 1)`
array asarray asanyarray ascontiguousarray asfortranarray atleast_1d(x) | x
numel ndarray_size(x) | length(x)
nrow nrows(x) | size(x, 1)
ncol ncols(x) | size(x, 2)
shape | size
ndim | ndims
matmul mm mtimes(a, b) | a * b
outer(a, b) | a * b'
vdot inner(a, b) | dot(a, b)
einsum outer | : name the indices: `@einsum C[i, j] += A[i, k] * B[k, j]`
vstack concatenate row_stack | : `vcat(a, b)` joins vectors and puts matrices below each other
hstack column_stack | : `hcat(a, b)` puts columns and matrices side by side, `vcat(a, b)` joins vectors
zeros_like(x) | 0 .* x
ones_like(x) | 0 .* x .+ 1
full_like(x, v) | 0 .* x .+ v
empty_like(x) | similar(x)
empty(n) | zeros(n)
empty(m, n) | zeros(m, n)
full(n, v) | fill(v, n)
eye speye fspeye(n) | [i == j ? 1.0 : 0.0 for i in 1:n, j in 1:n]
eye(m, n) | [i == j ? 1.0 : 0.0 for i in 1:m, j in 1:n]
argsort | sortperm
sorted | sort
reversed | reverse
fliplr(A) | reverse(A, dims = 2)
flipud(A) | reverse(A, dims = 1)
amax nanmax np_max | maximum
amin nanmin np_min | minimum
max(x, [], k) | maximum(x, dims = k)
min(x, [], k) | minimum(x, dims = k)
max(x) | maximum(x)
min(x) | minimum(x)
average | mean
count_nonzero(x) | count((t) -> t != 0, x)
square sqr(x) | @. x * x
power pow float_power(x, y) | @. x ^ y
add plus(x, y) | @. x + y
subtract minus(x, y) | @. x - y
multiply times(x, y) | @. x * y
divide true_divide rdivide(x, y) | @. x / y
floor_divide(x, y) | @. fld(x, y)
remainder(x, y) | @. mod(x, y)
negative uminus(x) | -x
reciprocal(x) | @. 1 / x
greater gt(x, y) | @. x > y
greater_equal ge(x, y) | @. x >= y
less isless lt(x, y) | @. x < y
less_equal le(x, y) | @. x <= y
equal(x, y) | @. x == y
not_equal(x, y) | @. x != y
array_equal array_equiv strcmp(x, y) | x == y
allclose isclose(x, y) | isapprox(x, y)
logical_and(x, y) | @. x && y
logical_or(x, y) | @. x || y
logical_not(x) | @. !x
arcsin(x) | @. asin(x)
arccos(x) | @. acos(x)
arctan(x) | @. atan(x)
arcsinh(x) | @. asinh(x)
arccosh(x) | @. acosh(x)
arctanh(x) | @. atanh(x)
sincos(x) | (sin(x), cos(x))
bitwise_and(x, y) | @. x & y
bitwise_or(x, y) | @. x | y
logical_xor bitwise_xor(x, y) | xor(x, y)
invert bitwise_not(x) | @. ~x
heaviside step(x) | @. ifelse(x > 0, 1.0, 0.0)
arctan2(y, x) | @. atan2(y, x)
radians deg2rad(x) | @. x * 3.141592653589793 / 180
degrees rad2deg(x) | @. x * 180 / 3.141592653589793
sind(x) | @. sin(x * 3.141592653589793 / 180)
cosd(x) | @. cos(x * 3.141592653589793 / 180)
exp10(x) | @. 10.0 ^ x
rint around(x) | @. round(x)
isqrt(n) | floor(Int64, sqrt(n))
isinf isposinf isneginf(x) | @. abs(x) == Inf
isfinite(x) | @. abs(x) < Inf
isinteger(x) | @. x == floor(x)
iszero(x) | @. x == 0
isone(x) | @. x == 1
signbit(x) | @. x < 0
nan_to_num(x) | @. ifelse(isnan(x), 0.0, x)
nansum(x) | sum(filter((t) -> !isnan(t), x))
nanstd(x) | std(filter((t) -> !isnan(t), x))
nanmean(x) | mean(filter((t) -> !isnan(t), x))
fsum(x) | sum(x)
fmean(x) | mean(x)
stdev stdm(x) | std(x)
variance(x) | var(x)
pstdev pvariance nanvar nanmedian geometric_mean harmonic_mean middle | : `mean(f, x)` and `sum(f, x)` take a function: `exp(mean(log, x))`
ptp(x) | maximum(x) - minimum(x)
quantile percentile prctile quantiles | : `sort(x)[ceil(Int64, p * length(x))]` is the entry that a part `p` of `x` does not exceed, `median(x)` the middle
cor corrcoef correlation(x, y) | dot(x .- mean(x), y .- mean(y)) / (norm(x .- mean(x)) * norm(y .- mean(y)))
cov covariance(x, y) | dot(x .- mean(x), y .- mean(y)) / (length(x) - 1)
cor corrcoef cov(X) | : of the columns: with `n = size(X, 1)` and `C = X .- sum(X, dims = 1) ./ n`, it is `C' * C / (n - 1)`
cor corrcoef correlation cov covariance | : with `u = x .- mean(x)` and `v = y .- mean(y)`, the covariance is `dot(u, v) / (length(x) - 1)`, the correlation `dot(u, v) / (norm(u) * norm(v))`
mode | : count with a dictionary: `d[v] = get(d, v, 0) + 1`
hist histogram histc histcounts bincount accumarray countmap Counter digitize | : a kernel counts: `for i = _; h[x[i]] += 1 end`; a script does with `d[v] = get(d, v, 0) + 1`
trapz trapezoid(y) | sum(y[1:end - 1] .+ y[2:end]) / 2
trapz trapezoid(x, y) | sum(diff(x) .* (y[1:end - 1] .+ y[2:end])) / 2
circshift(x, k) | roll(x, 1, k)
rotl90 rotr90 rot90 rot180 | : `reverse(A, dims = 1)` turns the rows over, `A'` exchanges rows and columns
meshgrid ndgrid mgrid | : `[f(a, b) for a in x, b in y]` has each pair
moveaxis swapaxes matrix_transpose | : `permutedims(A, (2, 1, 3))` exchanges the first two dimensions
newaxis | : `reshape(x, 1, length(x))` makes a row of a vector
block_diag blockdiag bmat block_array | : `[A B; C D]` puts matrices beside and below each other
sub2ind ind2sub unravel_index ravel_multi_index CartesianIndex CartesianIndices LinearIndices | : entry `k`, counted down the columns of `m` rows, is in row `(k - 1) % m + 1` and column `(k - 1) ÷ m + 1`
take getindex(x, i) | x[i]
view selectdim(x, i) | x[i]
view(x, i, j) | x[i, j]
setindex! | : write `A[i, j] = v`
copyto! copyto | : write `a .= b`
mul! matmul! | : write `y .= A * x`
axpy! axpby! rmul! lmul! ldiv! rdiv! | : write `y .+= a .* x`
matrix_power(A, n) | A ^ n
logdet(A) | log(det(A))
issymmetric ishermitian issym(A) | A == A'
UpperTriangular uptri(A) | triu(A)
LowerTriangular(A) | tril(A)
hvcat | : `[A B; C D]` puts matrices beside and below each other
Symmetric Hermitian Tridiagonal SymTridiagonal Bidiagonal toeplitz hankel | : matrices have all their entries: `triu(A) .+ triu(A, 1)'` mirrors those above the diagonal, `spdiagm` makes bands
normalize normalize!(x) | x / norm(x)
sortrows sortslices(A) | A[sortperm(A[:, 1]), :]
issorted(x) | x == sort(x)
searchsortedfirst bisect_left searchsorted(v, x) | count((t) -> t < x, v) + 1
searchsortedlast bisect_right(v, x) | count((t) -> t <= x, v)
partialsort nlargest argpartition | : `sort(x, rev = true)[1:k]` has the `k` largest entries
ismember(x, v) | x in v
intersect intersect1d intersection(a, b) | unique([x for x in a if x in b])
union union1d(a, b) | unique(vcat(a, b))
setdiff setdiff1d difference(a, b) | unique([x for x in a if !(x in b)])
issubset(a, b) | all([x in b for x in a])
allunique(v) | length(unique(v)) == length(v)
gcd | : there is none: `gcd(a, b) = b == 0 ? abs(a) : gcd(b, a % b)` defines it
lcm | : it is `a ÷ gcd(a, b) * b`, with `gcd(a, b) = b == 0 ? abs(a) : gcd(b, a % b)`
factorial(n) | prod(1:n)
binomial nchoosek comb(n, k) | prod(n - k + 1:n) ÷ prod(1:k)
divrem(a, b) | (div(a, b), rem(a, b))
divmod fldmod(a, b) | (fld(a, b), mod(a, b))
mod1(a, b) | mod(a - 1, b) + 1
minmax(a, b) | (min(a, b), max(a, b))
isprime primes factor nextprime | : it is a loop over divisors: `n % d == 0` tells whether `d` divides `n`
permutations combinations product combinations_with_replacement cycle takewhile groupby | : loops in each other go through them: `for a in x, b in y`
cumulative_sum(x) | cumsum(x)
cumulative_prod(x) | cumprod(x)
nanargmax nanargmin | argmax
resize! sizehint! splice! | : `push!`, `pop!`, `insert!` and `deleteat!` change a vector that began as `[]`
DataFrame Series CSV pd pandas XLSX JSON | : there are no tables: columns are arrays, given to a session from Python
ntuple(f, n) | [f(k) for k in 1:n]
arrayfun vectorize(f, x) | map(f, x)
feval(f, x) | f(x)
mapslices apply_along_axis cellfun bsxfun eachslice | : `[f(c) for c in eachcol(A)]` calls `f` with each column
accumulate cummax cummin maximum_accumulate | : a loop keeps the last value: `m = max(m, x[i])`; sums are `cumsum(x)`, products `cumprod(x)`
evalpoly polyval(x, p) | : it is a loop: `y = y * x + p[i]`
mapfoldl mapfoldr | mapreduce
hsplit vsplit dsplit array_split partition chunks | : `x[(k - 1) * n + 1:k * n]` is the `k`-th part of `n` entries
convert(T, x) | T(x)
astype(x, T) | T.(x)
oftype promote promote_type widen astype reinterpret typecast | : a type converts: `Float64(n)`, and `Float64.(x)` of arrays
deepcopy clone(x) | copy(x)
Pair(a, b) | a => b
something(a, b) | coalesce(a, b)
findlast(f, v) | findall(f, v)[end]
symdiff setxor1d symmetric_difference | : `unique([x for x in a if !(x in b)])` is what `b` has not
spdiags diags diag_indices fill_diagonal | : `spdiagm(0 => v)` makes a matrix of diagonals, `diag(A)` reads one
tril_indices triu_indices | : in a kernel `if i <= j` selects a triangle; `triu(A)` and `tril(A)` are the parts
broadcast_to broadcast_arrays atleast_2d atleast_3d | : sizes of 1 repeat: `A .+ x'` adds a row to each row
trues(n) | fill(true, n)
falses(n) | fill(false, n)
trues(m, n) | fill(true, m, n)
falses(m, n) | fill(false, m, n)
diagflat(v) | Diagonal(v)
lastindex(x) | length(x)
firstindex(x) | 1
head(x) | x[1:5]
fabs fabsf absolute | abs
sqrtf | sqrt
fmax fmaxf | max
fmin fminf | min
fmod fmodf | rem
ln | log
sgn signum | sign
sigmoid logistic expit(x) | @. 1 / (1 + exp(-x))
relu(x) | @. max(x, 0)
softmax | : write `e = exp.(x)` and `e .* (1 / sum(e))`
isna isnull isnat | ismissing
int long(string) | parse(Int64, string)
float double(string) | parse(Float64, string)
int long(x) | trunc(Int64, x)
float double(x) | Float64(x)
int long int_ intc intp short | Int64
float double Float Double Real float_ float64 | Float64
float32 single | Float32
int8 | Int8
int16 | Int16
int32 | Int32
int64 | Int64
uint8 | UInt8
uint16 | UInt16
uint32 | UInt32
uint64 uint | UInt64
bool(x) | x != 0
bool boolean bool_ logical | Bool
str repr to_string toString num2str int2str mat2str strcat(x) | string(x)
strcat(x, y) | string(x, y)
str repr to_string toString | string
str2num str2double(s) | parse(Float64, s)
list to_list(x) | collect(x)
list | : a vector is written `[1, 2]`, one that grows begins as `[]`
tuple | : a tuple is written `(1, 2)`
set Set frozenset(x) | unique(x)
set Set frozenset | : `unique(x)` has each entry once, `x in v` looks for one
dict | Dict
type class | typeof
isinstance isa issubclass | : `typeof(x) == Float64` compares the type of numbers; of arrays it is the type of their entries
csr_matrix csc_matrix coo_matrix csc_array csr_array coo_array lil_matrix dok_matrix SparseMatrix(A) | Tensor(Dense(SparseList(Element(0.0))), A)
csr_matrix csc_matrix coo_matrix csc_array csr_array coo_array lil_matrix dok_matrix | : `fsparse(I, J, V, (m, n))` makes one of coordinates, which count from 1
diagm diag_matrix | Diagonal
load read_csv loadtxt loadmat genfromtxt mmread imread readdlm readtable csvread load_npz fromfile | : `fread("matrix.mtx")` reads a tensor; other files are read in Python, and given to a session
open fopen read readlines eachline textscan fscanf | : files are tensors here, by `fread("matrix.mtx")`; text is read in Python, and given to a session
write writedlm fclose close flush fgetl seek eof csvwrite | : files are tensors here, by `fwrite("matrix.mtx", A)`; text is printed by `println`
save savetxt savemat mmwrite imwrite savez save_npz | : `fwrite("matrix.mtx", A)` writes a tensor
.extend extend(x, e) | append!(x, e)
.pop(x) | pop!(x)
.sort(x) | sort!(x)
.items items(d) | pairs(d)
.remove .discard .clear remove discard | : `deleteat!(x, k)` takes the entry at `k` out, `delete!(d, key)` a key
.insert insert(x, k, e) | : `insert!(x, k, e)` counts `k` from 1
.add .update update setdefault defaultdict merge merge! mergewith | : `d[key] = value` sets an entry of a dictionary, `get(d, key, 0)` has one that may be missing
.append append .push push(x, e) | : `push!(x, e)` appends to a vector that began as `[]`; `x = vcat(x, [e])` makes a longer one
.astype(x, t) | : `Float64.(x)` converts each entry, `trunc.(Int64, x)` cuts fractions off
.toarray .todense .to_numpy(A) | collect(A)
.max(x) | maximum(x)
.min(x) | minimum(x)
.std .var np.std np.var | : `std` and `var` divide by `n - 1`; with `m = mean(x)`, the variance of NumPy is `mean((x .- m) .^ 2)`
.tocsr .tocsc .tocoo(A) | : a tensor has the format it is made with: `Tensor(CSCFormat(0.0), A)`
.T .H .transpose(A) | A'
.shape(A) | size(A)
.size .length(A) | length(A)
.ndim(A) | ndims(A)
.nnz(A) | countstored(A)
.dtype(A) | eltype(A)
.data .indices .indptr .val .ptr .idx .lvl(A) | : `ffindnz(A)` gives the coordinates and values of what is stored, `display(A)` shows the arrays
.reshape np.reshape | : `reshape(x, m, n)` goes down the columns; `reshape(x, n, m)'` fills rows of `n`, as NumPy does
.dot np.dot | : `A * B` is the product of matrices, `A * x` with a vector, `dot(x, y)` that of two vectors
np.unique(x) | sort(unique(x))
.repeat np.repeat(x, n) | repeat(x, 1, n)
.flip np.flip(x) | reverse(x)
np.maximum np.fmax(x, y) | @. max(x, y)
np.minimum np.fmin(x, y) | @. min(x, y)
np.round .round(x, n) | map(v -> round(v, digits=n), x)
np.append(x, e) | vcat(x, e)
.flatten .ravel np.ravel ravel | : `vec(A)` goes down the columns, `vec(A')` along the rows, as NumPy does
.item(x) | x[]
.upper(s) | uppercase(s)
.lower(s) | lowercase(s)
.seed seed rng default_rng RandomState MersenneTwister | : `rand(3, seed = 1)` has the same numbers in each run
.msg .message | : `string(e)` is the message of what `catch e` caught
.log .info .println .print .write(o, x) | println(x)
eig eigs eigh eigen eigvals eigvecs eigmax eigmin svd svds svdvals qr lu lu_factor pinv lstsq cholesky cho_factor chol schur hessenberg expm logm sqrtm rank sprank matrix_rank cond coshm cosm sinm sinhm tanm tanhm signm eigvalsh normest logabsdet slogdet factorize lu_solve cho_solve solve_triangular nullspace null_space orth rref opnorm condest ldl bunchkaufman lyap sylvester polar | : NumPy and SciPy have it: call them from Python on the arrays of a session
modf frexp sinc cis angle fft ifft rfft fft2 fftshift conv conv2 convolve correlate filter2 filtfilt interp interp1 interp2 griddata spline polyfit poly1d roots fzero fsolve fminsearch minimize curve_fit ode45 odeint solve_ivp integral quad quadgk gamma lgamma gammaln beta erf erfc besselj gradient unwrap pcg gmres bicgstab cg | : NumPy and SciPy have it: call them from Python on the arrays of a session
plot plot3 scatter scatter3 bar barh hist2d heatmap contour contourf surf surface mesh pcolor imshow spy figure subplot subplots legend title xlabel ylabel axis colorbar colormap savefig saveas hold grid loglog semilogx semilogy boxplot quiver pie lines | : nothing is plotted here: `display(A)` draws where entries are stored; Matplotlib plots arrays of a session
randi(n) | rand(1:n)
randi(n, m) | rand(1:n, m, m)
randint(a, b) | rand(a:b - 1)
randrange(n) | rand(0:n - 1)
choice sample(v) | rand(v)
choice sample(v, n) | rand(v, n)
uniform unifrnd(a, b) | a + (b - a) * rand()
random ranf random_sample(n) | rand(n)
random ranf random_sample() | rand()
shuffle(v) | v[sortperm(rand(length(v)))]
randperm permutation(n) | sortperm(rand(n))
shuffle! sprandn | : `v[sortperm(rand(length(v)))]` has the entries in random order, `sprand(m, n, 0.1)` is a random sparse matrix
normal gauss standard_normal normrnd normalvariate | randn
zipf poisson exponential randexp bernoulli multinomial dirichlet betavariate gammavariate expovariate lognormal | : `rand(n)` has numbers from 0 to 1, `randn(n)` normal ones; NumPy has other distributions
random randint randi randrange choice choices sample uniform shuffle permutation randstring randcycle | : `rand(3)` has numbers from 0 to 1, `randn(3)` normal ones, `rand(1:6)` is a whole one
exit quit | : a script ends by itself, `error("why")` stops it; the prompt is left by Ctrl-D
help doc man | : at the prompt `?sum` explains a word, `:help` lists them
input readline raw_input scanf | : a script reads files by `fread`, and its arguments from `ARGS`
assert(c) | @assert c
lambda | : write `(x) -> x + 1`
print(x, y, z) | println(x, y, z)
printf sprintf fprintf cout console System logging | : write `println("x = $x")`, with `$name` or `$(round(x, digits=2))` for values
disp display_text echo puts say(x) | println(x)
throw raise(x) | error(x)
OSError IOError ImportError NameError OverflowError StopIteration ValueError TypeError KeyError IndexError RuntimeError Exception ArgumentError BoundsError DomainError ErrorException DimensionMismatch AssertionError NotImplementedError ZeroDivisionError rethrow | : write `error("what is wrong")`
AbstractVector AbstractMatrix AbstractFloat Number Integer Any Union Char Symbol BigInt BigFloat Rational Complex Float16 ComplexF64 complex complex64 complex128 float16 object ndarray dtype | : numbers are Bool, Int8 to Int64, UInt8 to UInt64, Float32 and Float64; a tensor has the type of its fill
real(x) | x
imag(x) | 0 * x
conj(x) | x
eps finfo | : of Float64 it is 2.220446049250313e-16
floatmax realmax floatmin realmin | : the largest Float64 is 1.7976931348623157e308, the least normal one 2.2250738585072014e-308
regexp regexprep regexpi match eachmatch Regex findnext | : there are no patterns: `occursin`, `startswith`, `endswith` and `replace` take strings
titlecase capitalize uppercasefirst isalnum swapcase islowercase isuppercase isdigit isalpha isletter isspace isupper islower index rfind rindex chop chr ord codepoint ascii hex bin bitstring digits dec2bin char text encode decode | : strings have `uppercase`, `lowercase`, `strip`, `split`, `join`, `replace`, `occursin`, `startswith`, `lpad`; `s[2:3]` is a part
lstrip rstrip strtrim trim deblank chomp(s) | strip(s)
strrep(s, a, b) | replace(s, a => b)
.format format | : a string may hold `$name` and `$(name + 1)`; `round(x, digits=2)` and `lpad(s, 8)` shape them
strfind strstr(s, t) | occursin(t, s)
ljust(s, n) | rpad(s, n)
rjust center(s, n) | lpad(s, n)
zfill(s, n) | lpad(s, n, "0")
splitlines(s) | split(s, "\\n")
methodcaller isassigned oneunit dump summary Ref Tuple NamedTuple namedtuple getattr setattr hasattr getproperty setproperty! hasproperty fieldnames propertynames vars dir globals locals super property staticmethod classmethod callable methods methodswith nameof supertype hash objectid isstruct isfield who whos exist nargin nargout | : there are no objects: values are numbers, strings, tuples, dictionaries, arrays and tensors
isnumeric ischar isstring isscalar isvector ismatrix isrow iscell isreal islogical | : `ndims(x)` is 0 for a number, 1 for a vector and 2 for a matrix, `eltype(x)` the type of its entries
next iter anext chain islice | : write a loop: `for v in x`
Timer sleep pause wait now today Date DateTime datetime time_ns perf_counter | : `time()` is the time in seconds, `@time f(x)` tells how long a statement takes
pmap lock Threads threadid nthreads spawn fetch Channel Task addprocs prange cpu parallel | : kernels run in one thread
pwd cd mkdir rm isfile isdir readdir joinpath basename ENV getenv os run shell download | : files and commands are for Python; the language reads and writes tensors by `fread` and `fwrite`
clear clc more eval exec evalin assignin deal | : it is not needed here: take the line out
True | true
False | false
None null NULL nil undef Nothing void nullptr | nothing
NA NaT | missing
inf infinity Infinity INFINITY | Inf
nan Nan NAN | NaN
pi π PI M_PI | 3.141592653589793
ℯ euler | exp(1.0)
im 1im | : there are no complex numbers: keep two arrays, the real and the imaginary parts
this self new delete malloc sizeof_array | : there are no objects: values are numbers, strings, tuples, arrays and tensors
# Julia, Finch.jl, MATLAB
Fiber! Fiber fiber SparseArray | Tensor
DenseLevel | Dense
SparseListLevel | SparseList
SparseCSC | CSCFormat
SparseCOOLevel | SparseCOO
ElementLevel | Element
PatternLevel | Pattern
SingleList SparseSingleton SparsePinpoint | SparsePoint
SingleRLE | SparseInterval
RepeatRLE RepeatedRLE | RunList
fspzeros | spzeros
expanddims | expand_dims
fttread ftnsread bspread | fread
fttwrite ftnswrite bspwrite | fwrite
eachstored rowvals nonzeroinds nzrange | : `(I, J, V) = findnz(A)` are the coordinates and values of what is stored
dropzeros dropzeros! droptol!(A) | dropfills(A)
sparsevec(x) | Tensor(SparseList(Element(0.0)), x)
issparse isspmatrix(A) | : `typeof(A)` is the format, with `SparseList` and others where entries are left out
spmv spmm spmspm mxm mxv dgemm gemm(A, B) | A * B
level_size level_axes level_ndims labelled_show data_rep | : `display(A)` shows the levels and their arrays
fused | : an expression is one kernel: `sum(A .* B)`; over several statements `C = lazy(A) .* B` and `compute(C)`
set_scheduler! with_scheduler default_scheduler DefaultScheduler galley_scheduler GalleyOptimizer NaiveOptimizer LogicExecutor LogicCompiler | : expressions are planned by themselves: take it out
redefault! set_fill_value! | : the fill is that of the format: `Tensor(Dense(SparseList(Element(Inf))), A)`
moveto transfer threadlocal local_memory AtomicElement Mutex MutexLevel | : there are no threads, and one memory: take it out
window | : in a kernel write `A[(2:3)(i)]`
permissive | : in a kernel write `coalesce(A[~(i - 1)], 0.0)`
offset | : in a kernel write `A[i + 1]` or `A[~(i + 1)]`
extrude | : it is not needed here: an index loops over the whole dimension
walk gallop follow laminate | : how an index is walked stands in an access of a kernel: `A[gallop(i), j]`
fastmath inbounds simd | : it is not needed here: kernels are compiled, and their bounds checked once
CSC | CSCFormat(0.0)
COO | COOFormat(2, 0.0)
CSR CSRFormat DCSRFormat | : formats go by columns: make `B = Tensor(CSCFormat(0.0), A')`, and `B'` has the rows of `A`
SparseMatrixCSC SparseVector AbstractArray | : arrays are made by `zeros(3, 3)`, tensors by `Tensor(Dense(SparseList(Element(0.0))), 3, 3)`
fill!(x, v) | : write `@finch x .= 0`, and a kernel for other values than the fill
zero(x) | 0 * x
one(x) | 0 * x + 1
muladd fma(x, y, z) | x * y + z
default | fill_value
dropfills! | dropfills
trace(A) | tr(A)
transpose! adjoint! | transpose
fix | trunc
idivide floordiv | div
horzcat | hcat
vertcat | vcat
repmat | tile
upper | uppercase
lower | lowercase
strlen | length
strsplit | split
strjoin | join
tic toc clock timeit | : `@time f(x)` tells how long a statement takes
typemax maxint | : the largest Int64 is 9223372036854775807, of floats it is `Inf`
cell struct containers | : keep the parts in variables, in a tuple or in `Dict("a" => 1)`
"""
#: what stands in kernels in place of functions of scripts
IN_KERNELS = """
argmax argmin findmax findmin | : of a `Scalar(-Inf => 0)` with `s .= (-Inf => 0)`, `s[] <<maxby>>= x[i] => i` keeps the largest value with its place
length numel(x) | size(x, 1)
eachindex(x) | _
axes(x, k) | _
axes(x) | _
lastindex(x) | size(x, 1)
upper triu uptri(i, j) | i <= j
lower tril lotri(i, j) | i >= j
uppercase lowercase strip split join findfirst filter map | : it belongs to scripts: call it before or after the kernel
range(n) | 1:n
sum prod mean maximum minimum count any all norm dot average | : loops reduce: `s[] += x[i]` sums up, `s[] <<max>>= x[i]` keeps the largest
println print printf display disp show | : a kernel cannot print: print the tensor after the kernel
zeros ones fill rand Tensor Scalar similar copy collect string error push! append! sort reshape transpose findall vcat hcat fread fwrite | : call it before or after the kernel
"""
