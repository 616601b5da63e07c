"""The session of the README with a generated client: python session.py URL TOKEN_OF_ANN TOKEN_OF_BO."""

import sys

from feedline_client import AuthenticatedClient
from feedline_client.api.posts import posts_create, posts_edit, posts_get
from feedline_client.api.timeline import timeline_read
from feedline_client.api.users import users_follow, users_update
from feedline_client.models.error import Error
from feedline_client.models.media import Media
from feedline_client.models.post_draft import PostDraft
from feedline_client.models.post_edit import PostEdit
from feedline_client.models.profile_update import ProfileUpdate
from feedline_client.models.visibility_type_0 import VisibilityType0


def expect(condition, value):
    """Fails unless the condition holds."""
    if not condition:
        raise SystemExit(f"unexpected: {value}")


def main(url, ann_token, bo_token):
    """Posts, follows, reads the timeline; then sends changes that change nothing."""
    ann, bo = (
        AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
        for token in (ann_token, bo_token)
    )
    media = Media.from_dict({"type": "image", "url": "https://pictures.example/harbour.jpg"})
    draft = PostDraft(text="Hello from Bo. #rust", visibility=VisibilityType0.FOLLOWERS, media=[media])
    post = posts_create.sync(client=bo, body=draft)
    expect(post.author == "bo" and post.topics == ["rust"], post)
    users_follow.sync(id="bo", client=ann)
    page = timeline_read.sync(client=ann, limit=10)
    expect([item.id for item in page.items] == [post.id], page)
    expect(page.people["bo"].name == "bo", page.people)

    # A client that fills in the defaults changes nothing.
    before = posts_get.sync(id=post.id, client=bo).to_dict()
    posts_edit.sync(id=post.id, client=bo, body=PostEdit())
    after = posts_get.sync(id=post.id, client=bo).to_dict()
    after.pop("edited_at", None)
    expect(after == before, (before, after))
    users_update.sync(client=bo, body=ProfileUpdate(bio="Writes Rust."))
    expect(users_update.sync(client=bo, body=ProfileUpdate()).bio == "Writes Rust.", "the profile")
    # `null` clears.
    posts_edit.sync(id=post.id, client=bo, body=PostEdit(media=None))
    expect(not posts_get.sync(id=post.id, client=bo).media, "the media")

    missing = posts_get.sync(id=1, client=ann)
    expect(isinstance(missing, Error) and missing.error.code == "not_found", missing)
    print("Python: the session works")


if __name__ == "__main__":
    main(*sys.argv[1:])
