// Package ipvs describes a table of IPVS virtual services as plain comparable values and computes how to turn one table
// into another. It is pure: no kernel, clock or goroutine.
//
// [Diff] returns operations in an order that keeps every pool serving: whatever adds capacity comes first, whatever takes
// it away last, and what the kernel can edit in place is never deleted and added again (that would reset connections).
// Services that the caller does not own are never touched.
package ipvs
