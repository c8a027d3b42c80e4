package verdict

import "math"

// tree finds, among n numbers, those in a range that are below a bound, each in
// logarithmic time. Node i is the least of nodes 2i and 2i+1; node 1 is the root,
// and the leaves are the nodes from size on.
type tree struct {
	size int
	node []int32
}

// newTree builds the tree over at(0) … at(n-1).
func newTree(n int, at func(i int) int32) *tree {
	t := &tree{size: 1}
	for t.size < n {
		t.size *= 2
	}
	t.node = make([]int32, 2*t.size)
	for i := range t.size {
		t.node[t.size+i] = math.MaxInt32
		if i < n {
			t.node[t.size+i] = at(i)
		}
	}
	for i := t.size - 1; i > 0; i-- {
		t.node[i] = min(t.node[2*i], t.node[2*i+1])
	}
	return t
}

// firstBelow returns the first of the numbers a up to b that is below bound, or -1.
func (t *tree) firstBelow(a, b int, bound int32) int {
	return t.find(1, 0, t.size, a, b, bound, 0)
}

// lastBelow returns the last of the numbers a up to b that is below bound, or -1.
func (t *tree) lastBelow(a, b int, bound int32) int {
	return t.find(1, 0, t.size, a, b, bound, 1)
}

// find searches the node over the numbers from up to to, its child near before
// the other.
func (t *tree) find(node, from, to, a, b int, bound int32, near int) int {
	switch {
	case b <= from || to <= a || t.node[node] >= bound:
		return -1
	case to == from+1:
		return from
	}
	middle := (from + to) / 2
	for _, child := range [2]int{near, 1 - near} {
		lo, hi := from, middle
		if child == 1 {
			lo, hi = middle, to
		}
		if i := t.find(2*node+child, lo, hi, a, b, bound, near); i >= 0 {
			return i
		}
	}
	return -1
}

// least returns the least of the numbers a up to b.
func (t *tree) least(a, b int) int32 {
	least := int32(math.MaxInt32)
	for a, b = a+t.size, b+t.size; a < b; a, b = a/2, b/2 {
		if a%2 == 1 {
			least = min(least, t.node[a])
			a++
		}
		if b%2 == 1 {
			b--
			least = min(least, t.node[b])
		}
	}
	return least
}
