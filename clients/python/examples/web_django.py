#!/usr/bin/env python3
"""A Django project in one file: each user has a limit, and each client that is not logged in.

The key is a function of the request, so the middleware stands behind those that know the user. Here
a header stands in for a login. Needs django:

    SLUICEGATE_ADDRESS=localhost:8081 python3 web_django.py runserver
    curl -i -H 'X-User: ann' localhost:8000/search
"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse
from django.urls import path

from sluicegate.django import WebRequest


def key(request: WebRequest) -> str | None:
    user = request.native.headers.get("X-User")
    if user == "admin":
        return None  # no limit
    return f"user:{user}" if user else f"client:{request.client}"


settings.configure(
    ALLOWED_HOSTS=["localhost", "testserver"], ROOT_URLCONF=__name__, SECRET_KEY="an example",
    MIDDLEWARE=[
        "django.middleware.common.CommonMiddleware",
        "sluicegate.django.SluicegateMiddleware",
    ],
    SLUICEGATE={
        "SERVER": os.environ.get("SLUICEGATE_ADDRESS", "localhost:8081"),
        "KEY": key,
        "RATE": "3/minute",
        "EXEMPT": ["/healthz"],
    })


async def search(request: HttpRequest) -> HttpResponse:
    return HttpResponse("found\n")


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n")


urlpatterns = [path("search", search), path("healthz", healthz)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
