"""Estimators of scikit-learn: fitted, nested, updated in part, asked for predictions."""

import sys
from contextlib import nullcontext

import numpy as np

from injector import region


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, (x[:, 0] > 0).astype(int)


def fit():
    from sklearn.linear_model import LogisticRegression

    x, y = data(200)
    model = LogisticRegression().fit(x, y)
    return model.predict(x[:50]).shape, model.predict_proba(x[:40]).shape, model.score(x, y) > 0.5


def pipeline():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = data(200)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y).predict(x[:30]).shape


def search():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y = data(200)
    found = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3).fit(x, y)
    return len(found.cv_results_["params"])


def parallel():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y = data(200)
    found = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3, n_jobs=2, refit=False)
    return len(found.fit(x, y).cv_results_["params"])


def incremental():
    from sklearn.decomposition import IncrementalPCA

    return IncrementalPCA(2, batch_size=20).fit(data(60)[0]).n_samples_seen_


def partial():
    from sklearn.linear_model import SGDClassifier

    x, y = data(200)
    model = SGDClassifier(random_state=0)
    for epoch in range(2):
        for start in range(0, 200, 40):
            model.partial_fit(x[start : start + 40], y[start : start + 40], classes=[0, 1])
    return model.t_


def scaled():
    from sklearn.preprocessing import StandardScaler

    x, _ = data(200)
    scaler = StandardScaler().fit(x)
    scaler.partial_fit(x[:30])
    return scaler.n_samples_seen_


def transform():
    from sklearn.preprocessing import StandardScaler

    x, _ = data(200)
    scaler = StandardScaler()
    return scaler.fit_transform(x).shape, scaler.transform(x[:70]).shape


def boosting():
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = data(150)
    model = GradientBoostingClassifier(n_estimators=6, max_depth=2).fit(x, y)
    return model.n_estimators_


def forest():
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(8, n_jobs=2, random_state=0).fit(*data(100))
    return len(model.estimators_)


def histograms():
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = data(200)
    model = HistGradientBoostingClassifier(max_iter=5, early_stopping=True, random_state=0)
    return model.fit(x, y + (x[:, 1] > 0)).n_iter_  # three classes


def machine():
    from sklearn.svm import SVC

    x, y = data(4000)
    return SVC().fit(x, y + (x[:, 1] > 0)).n_iter_.shape


def boosted():
    from sklearn.ensemble import AdaBoostClassifier

    return len(AdaBoostClassifier(n_estimators=3, random_state=0).fit(*data(150)).estimators_) > 0


def network():
    from sklearn.neural_network import MLPClassifier

    x, y = data(100)
    model = MLPClassifier((5,), max_iter=3, batch_size=25, n_iter_no_change=5, random_state=0)
    return model.fit(x, y).n_iter_


def cluster():
    from sklearn.cluster import KMeans

    return KMeans(2, n_init=1, random_state=0).fit_predict(data(90)[0]).shape


def loaded():
    import pickle

    from sklearn.tree import DecisionTreeClassifier

    x, y = data(80)
    text = pickle.dumps(DecisionTreeClassifier().fit(x, y))
    return pickle.loads(text).predict(x).shape


for name in sys.argv[1:]:
    with region(f"part/{name}") if len(sys.argv) > 2 else nullcontext():
        print(globals()[name]())
