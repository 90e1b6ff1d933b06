"""A library that is preloaded in programs to have another clock than this machine, and another host name."""

from __future__ import annotations

import shutil
import subprocess

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
static long wrong;
static double ppm, epoch;
static const char *host;
__attribute__((constructor)) static void begin(void) {
    FILE *file = getenv("CLOCK_FILE") ? fopen(getenv("CLOCK_FILE"), "r") : NULL;
    if (file) {
        if (fscanf(file, "%ld %lf %lf", &wrong, &ppm, &epoch) < 1) wrong = 0;
        fclose(file);
    }
    const char *node = getenv("CLOCK_NODE"), *own = getenv("SLURMD_NODENAME");
    if (node && own && !strcmp(node, own)) host = own;
    else if (node) wrong = 0, ppm = 0;
}
static void drift(struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    struct timespec then;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_MONOTONIC, &then);
    long more = (then.tv_sec + then.tv_nsec / 1e9 - epoch) * ppm * 1e3 + now->tv_nsec;
    now->tv_sec += more / 1000000000;
    now->tv_nsec = more % 1000000000;
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += wrong;
    if (ppm && (id == CLOCK_REALTIME || id == CLOCK_MONOTONIC)) drift(now);
    return code;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(now, zone);
    now->tv_sec += wrong;
    return code;
}
time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}
int uname(struct utsname *name) {
    int (*real)(struct utsname *) = dlsym(RTLD_NEXT, "uname");
    int code = real(name);
    if (host) snprintf(name->nodename, sizeof name->nodename, "%s", host);
    return code;
}
"""
"""The clock is wrong by as many seconds as the file CLOCK_FILE says; it goes faster by so many parts in a
million since a moment of the monotonic clock, where the file has them too. Where CLOCK_NODE is set, only that
of that node of Slurm is, which calls itself by its name there."""


def build(folder):
    """Compile it; its path."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (folder / "clock.c").write_text(SOURCE)
    words = ["cc", "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return folder / "clock.so"
