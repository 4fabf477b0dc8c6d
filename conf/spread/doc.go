// Package spread divides virtual routers among any number of directors: the
// arithmetic behind [vip_spread.NAME]. It is a pure function of the list of
// directors, their weights, the number of groups and the scheme, so that every
// director computes the same plan from the same file and nobody has to agree on
// anything at run time: VRRP's election does the rest.
//
// A group is one virtual router (one VRID with its addresses). Which addresses
// are in a group depends on their place in the list and on the number of groups
// alone (Group). The plan gives each group an order of the directors, and each
// director a priority by its place in that order.
//
// # Construction
//
// The order of a group is made place by place, and each place answers one
// question: who takes over when all the places before it have failed?
//
//  1. First places grow director by director, in the order of the list
//     (owners.go). Adding one recomputes how many groups each should have
//     (floor or ceiling of its share, so |load − share| < 1), with as many
//     groups as possible staying; those that must go are taken from the
//     directors that have too many. So a list that is longer by one moves the
//     least number of groups that an even result allows; with equal weights
//     that is floor(groups / directors), and all of them go to the new one.
//     With unequal weights and few groups, other directors get the odd groups
//     where a failure could not be made up for otherwise (hardFailures).
//  2. Second places (seconds.go). When one director fails, only its groups move,
//     so each failure is a problem of its own: raise given loads by whole
//     groups towards the shares of those that are left. Giving each group to
//     whoever is furthest below its share is optimal for every convex measure
//     of unevenness at once (the sums are those of a base polytope, where greedy
//     is exact). With equal weights the result always differs by at most one
//     group. The groups that the last director of the list took from others
//     return to those: without it, everything is as it was before it came.
//     What is left free, namely which directors get the odd groups, is settled
//     by a local search that makes loads after two failures as even as it can.
//  3. Later places (later.go). The groups whose first k places are the set S are
//     free to go anywhere when S has failed, and no other failure of k
//     directors concerns them. So again each set is a problem of its own, solved
//     exactly by the same greedy step, given the places before. Beyond
//     exactPlaces the order goes on in a fixed rotation.
//
// The tests compare 1 and 2 with exhaustive search for small sizes, and the
// local search of 2 with the best of all possible second places.
//
// With the scheme Pairs, second places are not computed: directors 1 and 2, 3
// and 4, … of the list stand in for each other, and the last of an odd number
// has no partner until the next one comes.
//
// # Old and new lists side by side
//
// The first place always has the same priority and the step from place to place
// is fixed (for up to 17 directors). While some directors still use the list
// without the new one, every group has one address set under one VRID and so one
// master; with equal weights it is the old owner, or the new director for the
// groups it takes, never a third.
//
// All arithmetic is in integers, so that machines of different architectures
// compute the same plan.
package spread
