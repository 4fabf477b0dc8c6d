#!/bin/bash
# 10,000 sequences of events against the in-memory IPVS table, which is as strict as the kernel's, and 200 against the
# kernel's, of the plan alone and of balancer and reconciler: what is in the table is as planned, and nothing is touched, emptied or cut off that need not be.
source "$(dirname "$0")/run.sh"
export VIPD_LONG=1
go test -count=1 -v -run "^TestAnyOrder$" ./cmd/internal/daemon | grep -E "^ *(---|ok|FAIL)|seed"
go test -count=1 -v -run "^TestWalks$" ./ipvs/plan | grep -E "^ *(---|ok|FAIL)|seed"
go test -count=1 -v ./ipvs/plan ./ipvs/reconcile -run "^(TestO51EveryOrder|TestO51WeightProperty|TestRandomWalk)$" -rapid.checks=10000 | grep -E "^ *(---|ok|FAIL)"
measure ./ipvs/netlink "^TestPlanWalks$"
measure ./test/anyorder "^TestAnyOrderInTheKernel$"
