#!/bin/sh
set -eu
. ./env.sh
go run ./internal/bench
