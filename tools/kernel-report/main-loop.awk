# Reads a kernel's machine code as `nvdisasm -c` prints it, and prints four values, separated by commas:
#   tensor instructions (HMMA) of the main loop, its instructions per 32 of them, its copies to local memory that bypass
#   registers (LDGSTS), and calls of 64-bit division in any loop. The first three are empty without such a loop.
# A loop is what a branch back to a block that all ways to the branch pass repeats (a natural loop), so a jump back from
# code that was moved behind the loop makes none. The main loop has most HMMA of those that contain no other loop with HMMA.
# Each instruction counts once, however often it runs, and those of called functions do not count.
function start() { # a new basic block, unless the last one is empty
    if (blocks && !size[blocks]) return
    blocks++
}
BEGIN { blocks = 0 }
$1 == ".section" { inside = $2 ~ /^\.text/ }
!inside { next }
/^[^ \t].*:[ \t]*$/ {
    start()
    sub(/:[ \t]*$/, "")
    at[$0] = blocks
    next
}
!/^[ \t]*\/\*[0-9a-f]+\*\// { next }
{
    if (!blocks) start()
    sub(/^[ \t]*\/\*[0-9a-f]+\*\/[ \t{]*/, "")
    conditional = sub(/^@!?U?P[0-9T]+[ \t]+/, "")
    size[blocks]++
    if (/^HMMA/) tensor[blocks]++
    if (/^LDGSTS/) async[blocks]++
    if (/^CALL.*(div|rem)_[us]64/) divisions[blocks]++
    if (/^(BRA|EXIT|RET|JMP|BRX)/) {
        if (match($0, /`\([^)]*\)/) && /^(BRA|JMP)/)
            to[blocks] = substr($0, RSTART + 2, RLENGTH - 3)
        # "BRA.DIV UR4, `(x)" and "BRA P1, `(x)" also go on.
        ends[blocks] = !conditional && /^(EXIT|RET|BRX|(BRA|JMP)[A-Z.]*[ \t]+`)/
        start()
    }
}

# reach(WITHOUT): marks in seen[] the blocks to which ways from the first block lead that do not pass WITHOUT.
function reach(without,    top, b, next_block) {
    split("", seen)
    if (without == 1) return
    top = 1
    stack[1] = 1
    seen[1] = 1
    while (top > 0) {
        b = stack[top--]
        next_block = b in to ? at[to[b]] : 0
        if (next_block && next_block != without && !(next_block in seen)) {
            seen[next_block] = 1
            stack[++top] = next_block
        }
        if (!ends[b] && b < blocks && b + 1 != without && !(b + 1 in seen)) {
            seen[b + 1] = 1
            stack[++top] = b + 1
        }
    }
}

# collect(HEAD, TAIL): adds the blocks that reach TAIL without passing HEAD to the loop of HEAD.
function collect(head, tail,    top, b, i) {
    member[head, head] = 1
    top = 0
    if (!((head, tail) in member)) {
        member[head, tail] = 1
        stack[++top] = tail
    }
    while (top > 0) {
        b = stack[top--]
        for (i = 1; i <= befores[b]; i++)
            if (!((head, before[b, i]) in member)) {
                member[head, before[b, i]] = 1
                stack[++top] = before[b, i]
            }
    }
}

END {
    reach(0)
    for (b in seen) live[b] = 1
    for (b = 1; b <= blocks; b++) {
        if (!(b in live)) continue
        if (b in to && at[to[b]]) before[at[to[b]], ++befores[at[to[b]]]] = b
        if (!ends[b] && b < blocks) before[b + 1, ++befores[b + 1]] = b
    }
    for (b = 1; b <= blocks; b++) {
        if (!(b in live) || !(b in to) || !at[to[b]] || at[to[b]] > b) continue
        head = at[to[b]]
        reach(head)
        if (b == head || !(b in seen)) {
            collect(head, b)
            heads[head] = 1
        }
    }
    for (h in heads)
        for (b = 1; b <= blocks; b++)
            if ((h, b) in member) {
                all[h] += size[b]
                hot[h] += tensor[b]
                copies[h] += async[b]
                if (divisions[b]) in_loop[b] = 1
            }
    main = 0
    for (h = 1; h <= blocks; h++) {
        if (!(h in heads) || !hot[h]) continue
        inner = 1
        for (other in heads)
            if (other != h && (h, other) in member && hot[other]) inner = 0
        if (verbose)
            printf "loop of block %d: %d instructions, %d HMMA, %d LDGSTS%s\n", h, all[h], hot[h], copies[h],
                inner ? "" : ", not innermost"
        if (inner && (!main || hot[h] > hot[main] || hot[h] == hot[main] && all[h] > all[main])) main = h
    }
    n = 0
    for (b in in_loop) n += divisions[b]
    if (main) printf "%d,%.0f,%d,%d\n", hot[main], all[main] * 32 / hot[main], copies[main], n
    else printf ",,,%d\n", n
}
