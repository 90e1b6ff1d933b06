/* lightgbm_predict MODEL DATA [PARAMETERS…]: one row at a time through the C API of LightGBM's library.

   It prints what lightgbm-benchmark's lightgbm_c_api/score.py reads: a line ROW for each row, with the
   microseconds of its prediction, then METRIC and PROPERTY; loading is reading text and making numbers of it. The rows of DATA are numbers between commas,
   tabs or blanks, the label first. The package of LightGBM has the library and no header: what is called is
   declared here as its published C API has it, https://lightgbm.readthedocs.io/en/stable/C-API.html. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *BoosterHandle;
typedef void *FastConfigHandle;
enum { FLOAT64 = 1, PREDICT_NORMAL = 0 };

const char *LGBM_GetLastError(void);
int LGBM_BoosterCreateFromModelfile(const char *, int *iterations, BoosterHandle *);
int LGBM_BoosterGetNumFeature(BoosterHandle, int *);
int LGBM_BoosterGetNumClasses(BoosterHandle, int *);
int LGBM_BoosterPredictForMatSingleRowFastInit(BoosterHandle, int kind, int start_iteration,
                                               int num_iteration, int data_type, int32_t columns,
                                               const char *parameters, FastConfigHandle *);
int LGBM_BoosterPredictForMatSingleRowFast(FastConfigHandle, const void *row, int64_t *length, double *result);
int LGBM_FastConfigFree(FastConfigHandle);
int LGBM_BoosterFree(BoosterHandle);

static void check(int code) {
    if (code != 0) {
        fprintf(stderr, "lightgbm_predict: %s\n", LGBM_GetLastError());
        exit(1);
    }
}

/* Seconds of a clock that only goes on. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *room(size_t size) {
    void *found = malloc(size);
    if (found == NULL) {
        fprintf(stderr, "lightgbm_predict: there is no memory left\n");
        exit(1);
    }
    return found;
}

/* The label of a line and its features. Returns how many features there are, -1 for what is no number. */
static int parse(char *line, double *label, double *row, int features) {
    int found = -1;
    for (char *word = strtok(line, ",\t \r\n"); word != NULL; word = strtok(NULL, ",\t \r\n"), found++) {
        char *end;
        double value = strtod(word, &end);
        if (*end != '\0') return -1;
        if (found < 0) *label = value;
        else if (found < features) row[found] = value;
    }
    return found;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: lightgbm_predict MODEL DATA [NAME=VALUE…]\n");
        return 2;
    }
    char parameters[4096] = "";
    for (int i = 3; i < argc; i++) {
        if (strlen(parameters) + strlen(argv[i]) + 2 > sizeof parameters) {
            fprintf(stderr, "lightgbm_predict: the parameters are longer than %zu characters\n", sizeof parameters);
            return 2;
        }
        strcat(strcat(parameters, " "), argv[i]);
    }
    BoosterHandle booster;
    FastConfigHandle fast;
    int iterations, features, classes;
    check(LGBM_BoosterCreateFromModelfile(argv[1], &iterations, &booster));
    check(LGBM_BoosterGetNumFeature(booster, &features));
    check(LGBM_BoosterGetNumClasses(booster, &classes));
    check(LGBM_BoosterPredictForMatSingleRowFastInit(booster, PREDICT_NORMAL, 0, -1, FLOAT64, features,
                                                     parameters, &fast));
    FILE *data = fopen(argv[2], "r");
    if (data == NULL) {
        fprintf(stderr, "lightgbm_predict: %s: %s\n", argv[2], strerror(errno));
        return 2;
    }
    printf("PROPERTY inference_data_width=%d\nPROPERTY num_classes=%d\n", features, classes);
    double *row = room(sizeof(double) * features), *result = room(sizeof(double) * classes);
    double label = 0, total = 0, loading = 0;
    char *line = NULL;
    size_t size = 0;
    long number = 0, rows = 0;
    for (double before = now(); getline(&line, &size, data) > 0; before = now()) {
        number++;
        if (strspn(line, " \t\r\n") == strlen(line)) continue;
        int found = parse(line, &label, row, features);
        if (found != features) {
            if (found < 0) fprintf(stderr, "lightgbm_predict: %s:%ld: not a row of numbers\n", argv[2], number);
            else fprintf(stderr, "lightgbm_predict: %s:%ld: %d features after the label; the model has %d\n",
                         argv[2], number, found, features);
            return 2;
        }
        int64_t length = 0;
        double from = now();
        check(LGBM_BoosterPredictForMatSingleRowFast(fast, row, &length, result));
        double usecs = (now() - from) * 1e6;
        loading += from - before;
        /* The reader of these lines takes no plus sign: no exponent of the prediction may have one. */
        printf("ROW line=%ld label=%f null_elem=0 prediction=%f time_usecs=%.3f\n", number, label, result[0], usecs);
        total += usecs;
        rows++;
    }
    printf("METRIC time_data_loading=%.9f\nMETRIC time_inferencing=%.9f\n", loading, total / 1e6);
    if (rows > 0) printf("METRIC time_inferencing_per_query=%.9f\n", total / rows / 1e6);
    printf("PROPERTY inference_data_length=%ld\n", rows);
    LGBM_FastConfigFree(fast);
    LGBM_BoosterFree(booster);
    free(line), free(row), free(result), fclose(data);
    return 0;
}
